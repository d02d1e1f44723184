#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "dsl/base/error.hpp"
#include "runtime/launch/plan.hpp"
#include "runtime/tensor.hpp"
#include "tests/runtime/programs.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using runtime::LaunchPlan;
using runtime::most_arguments;

namespace {

/// Arguments that fit `cast_signature`, for `tokens` rows of pitch 264; tests spoil one thing at a time.
struct Call {
    explicit Call(std::int64_t tokens = 130)
        : x(TensorView::of(device, memory(0), bf16, {tokens, 256}, {264, 1})),
          y(TensorView::of(device, memory(1), e4m3, {tokens, 256})),
          sf(TensorView::of(device, memory(2), f32, {tokens, (tokens + 127) / 128})),
          scale(TensorView::raw(device, memory(3), 8 * tokens, u8)) {}

    std::vector<std::uint64_t> bind() const {
        const LaunchPlan plan(test::cast_signature());
        std::uint64_t values[most_arguments];
        const TensorRef tensors[] = {x, y, sf, scale};
        plan.bind(device, tensors, scalars, values);
        return {values, values + 5};
    }
    std::string refusal() const {
        try {
            bind();
        } catch (const UsageError& error) {
            return error.what();
        }
        return "nothing was refused";
    }

    static void* memory(std::size_t i) {
        alignas(256) static std::array<std::array<std::byte, 256>, 4> bytes;
        return bytes[i].data();  // never touched: only addresses matter here
    }

    Device device;
    TensorView x, y, sf, scale;
    std::vector<Scalar> scalars = {Scalar("eps", 1e-6f), Scalar("steps", 3), Scalar("flag", true)};
};

}  // namespace

TEST_CASE("dims are bound from extents and strides, other numbers by name") {
    const std::vector<std::uint64_t> values = Call(130).bind();
    CHECK(values[0] == 130);
    CHECK(values[1] == 264);
    CHECK((values[2] & 0xFFFFFFFF) == std::bit_cast<std::uint32_t>(1e-6f));
    CHECK((values[3] & 0xFFFFFFFF) == 3);
    CHECK((values[4] & 0xFF) == 1);

    Call other_order(1000);
    other_order.scalars = {Scalar("flag", false), Scalar("eps", 2), Scalar("steps", -1)};
    const std::vector<std::uint64_t> again = other_order.bind();
    CHECK(again[0] == 1000);
    CHECK((again[2] & 0xFFFFFFFF) == std::bit_cast<std::uint32_t>(2.0f));
    CHECK((again[3] & 0xFFFFFFFF) == 0xFFFFFFFF);
    CHECK((again[4] & 0xFF) == 0);
}

TEST_CASE("strides that no element uses are not looked at") {
    Call one(1);
    one.x.strides = {7, 1};  // a single row: its pitch does not matter, though 7 is no multiple of 8
    CHECK(one.bind()[1] == 256);

    Call none(0);
    none.x.strides = {3, 9};
    none.x.data = none.y.data = none.sf.data = nullptr;
    CHECK(none.bind()[0] == 0);
}

TEST_CASE("a stride that several tensors share comes from the first that uses it, and the others must have it") {
    auto program = test::cast_signature();
    program->tensors[1].axes[0].stride = program->tensors[0].axes[0].stride;  // y has the pitch of x
    const LaunchPlan plan(program);
    std::uint64_t values[most_arguments];
    const auto bind = [&](Call& call) {
        plan.bind(call.device, std::array<TensorRef, 4>{call.x, call.y, call.sf, call.scale}, call.scalars, values);
        return values[1];
    };
    Call many(130);
    many.y.strides = {264, 1};
    CHECK(bind(many) == 264);
    many.y.strides = {272, 1};
    CHECK_THROWS_WITH(bind(many),
                      Contains("tensor y (programs.cpp:28) must have stride pitch = 264 along axis 0, which "
                               "the stride of axis 0 of x gave, got 272"));
    Call one(1);
    one.x.strides = {7, 1}, one.y.strides = {9, 1};
    CHECK(bind(one) == 256);
    Call none(0);
    none.x.data = nullptr, none.x.strides = {7, 1}, none.y.strides = {9, 1};
    CHECK(bind(none) == 256);
}

TEST_CASE("the grid is the product of its extents; an empty one is 0; too many blocks are refused") {
    const LaunchPlan plan(test::cast_signature());
    const auto blocks = [&](std::int64_t tokens) {
        const std::uint64_t values[] = {static_cast<std::uint64_t>(tokens), 256, 0, 0, 0};
        return plan.blocks(values);
    };
    CHECK(blocks(130) == 66);
    CHECK(blocks(0) == 0);
    CHECK(blocks(4'294'967'292) == 2'147'483'646);
    CHECK_THROWS_WITH(blocks(4'294'967'296), Contains("kernel cast: a grid of 1073741824 x 2 blocks is more than the "
                                                      "2147483647") &&
                                                 Contains("split the tensors"));
    CHECK_THROWS_AS(blocks(std::numeric_limits<std::int64_t>::max() / 2), UsageError);
}

TEST_CASE("every wrong tensor is refused with what is expected, what came and the cure", "[C37]") {
    Call call;
    SECTION("element") {
        call.x.element = f32;
        CHECK_THAT(call.refusal(),
                   Contains("kernel cast: tensor x (programs.cpp:27) must be bf16, got f32; convert it"));
    }
    SECTION("rank") {
        call.y = TensorView::of(call.device, call.y.data, e4m3, {130, 2, 128});
        CHECK_THAT(call.refusal(),
                   Contains("tensor y (programs.cpp:28) must have 2 axes, [tokens, 256], got 3: extents "
                            "[130, 2, 128]; add or drop"));
    }
    SECTION("constant extent") {
        call.x = TensorView::of(call.device, call.x.data, bf16, {130, 248}, {264, 1});
        CHECK_THAT(
            call.refusal(),
            Contains("tensor x (programs.cpp:27) must have extent 256 along axis 1, got 248 (extents [130, 248])"));
    }
    SECTION("extent that another tensor gave") {
        call.y = TensorView::of(call.device, call.y.data, e4m3, {129, 256});
        CHECK_THAT(call.refusal(),
                   Contains("tensor y (programs.cpp:28) must have extent tokens = 130 along axis 0, which "
                            "the extent of axis 0 of x gave, got 129 (extents [129, 256]); give tensors"));
    }
    SECTION("computed extent") {
        call.sf = TensorView::of(call.device, call.sf.data, f32, {130, 3});
        CHECK_THAT(call.refusal(),
                   Contains("tensor sf (programs.cpp:29) must have extent (tokens + 127) / 128 = 2 along "
                            "axis 1, got 3"));
    }
    SECTION("stride") {
        call.y.strides = {512, 1};
        CHECK_THAT(call.refusal(),
                   Contains("tensor y (programs.cpp:28) must have stride 256 along axis 0, got 512 (extents "
                            "[130, 256], strides [512, 1], in elements); make it contiguous"));
    }
    SECTION("inner stride") {
        call.x.strides = {264, 2};
        CHECK_THAT(call.refusal(), Contains("must have stride 1 along axis 1, got 2"));
    }
    SECTION("reversed rows") {
        call.y.strides = {-256, 1};
        CHECK_THAT(call.refusal(), Contains("must have stride 256 along axis 0, got -256"));
    }
    SECTION("base alignment") {
        call.x.data = static_cast<char*>(call.x.data) + 8;
        CHECK_THAT(call.refusal(),
                   Contains("tensor x (programs.cpp:27) must begin at a multiple of 16 bytes, and begins at "
                            "0x") &&
                       Contains("(8 bytes past one); copy it, or use the kernel recorded for a smaller"));
    }
    SECTION("null") {
        call.sf.data = nullptr;
        CHECK_THAT(call.refusal(), Contains("tensor sf (programs.cpp:29) has elements but its address is null"));
    }
    SECTION("read-only output") {
        call.y = TensorView::of(call.device, static_cast<const void*>(call.y.data), e4m3, {130, 256});
        CHECK_THAT(call.refusal(), Contains("tensor y (programs.cpp:28) is written and was given read-only memory"));
    }
    SECTION("packed: too few bytes") {
        // 6 columns in words of 4: the last byte, (129, 5), lies at 520 + 129 · 4 + 1.
        call.scale = TensorView::raw(call.device, call.scale.data, 1037, u8);
        CHECK_THAT(call.refusal(), Contains("tensor scale (programs.cpp:30) is packed and needs 1038 bytes for extents "
                                            "[tokens, 6], got a view over 1037"));
        call.scale = TensorView::raw(call.device, call.scale.data, 1038, u8);
        CHECK(call.bind()[0] == 130);
    }
    SECTION("packed: element") {
        call.scale.element = f32;
        CHECK_THAT(call.refusal(), Contains("tensor scale (programs.cpp:30) must be u8, got f32"));
    }
}

TEST_CASE("a written tensor whose elements share addresses is refused") {
    auto program = test::cast_signature();
    ir::Axis& rows = program->tensors[1].axes[0];
    rows.stride = program->arena->make(i64, {}, {}, ir::Parameter{static_cast<int>(program->scalars.size())});
    program->scalars.push_back({"out_pitch", i64, 1, {}});
    const LaunchPlan plan(program);
    Call call;
    std::uint64_t values[most_arguments];
    const auto bind = [&](std::int64_t pitch) {
        call.y.strides = {pitch, 1};
        plan.bind(call.device, std::array<TensorRef, 4>{call.x, call.y, call.sf, call.scale}, call.scalars, values);
        return static_cast<std::int64_t>(values[5]);
    };
    CHECK(bind(256) == 256);
    CHECK(bind(300) == 300);
    CHECK(bind(-256) == -256);
    CHECK_THROWS_WITH(bind(0), Contains("tensor y (programs.cpp:28) is written, and elements of the given view share "
                                        "addresses (extents [130, 256], strides [0, 1], in elements)"));
    CHECK_THROWS_AS(bind(255), UsageError);
}

TEST_CASE("numbers: multiples, names, types and ranges are checked") {
    Call call;
    SECTION("multiple") {
        call.x.strides = {260, 1};
        CHECK_THAT(call.refusal(),
                   Contains("kernel cast: pitch must be a multiple of 8, got 260 (the stride of axis 0 of x); "
                            "pad it"));
    }
    SECTION("missing") {
        call.scalars = {Scalar("eps", 1.0f), Scalar("flag", true)};
        CHECK_THAT(call.refusal(),
                   Contains("the numbers to give at a launch are: eps (f32), steps (i32), flag (bool); got: "
                            "eps, flag; give each once"));
    }
    SECTION("unknown") {
        call.scalars[0].name = "epsilon";
        CHECK_THAT(call.refusal(), Contains("got: epsilon, steps, flag"));
    }
    SECTION("a dim") {
        call.scalars.emplace_back("tokens", 130);
        CHECK_THAT(call.refusal(), Contains("tokens is taken from the extent of axis 0 of x and cannot be given"));
    }
    SECTION("fraction for an integer") {
        call.scalars[1] = Scalar("steps", 1.5);
        CHECK_THAT(call.refusal(), Contains("the number steps is i32 and cannot hold 1.5"));
    }
    SECTION("range") {
        call.scalars[1] = Scalar("steps", std::int64_t{1} << 31);
        CHECK_THAT(call.refusal(), Contains("the number steps is i32 and cannot hold 2147483648"));
        call.scalars[1] = Scalar("steps", -(std::int64_t{1} << 31));
        CHECK((call.bind()[3] & 0xFFFFFFFF) == 0x80000000);
        call.scalars[2] = Scalar("flag", 2);
        CHECK_THAT(call.refusal(), Contains("the number flag is bool and cannot hold 2"));
        call.scalars[2] = Scalar("flag", std::numeric_limits<std::uint64_t>::max());
        CHECK_THAT(call.refusal(), Contains("cannot hold 18446744073709551615"));
    }
}

TEST_CASE("the number of tensors is checked against the whole signature") {
    const LaunchPlan plan(test::cast_signature());
    Call call;
    std::uint64_t values[most_arguments];
    CHECK_THROWS_WITH(
        plan.bind(call.device, std::array<TensorRef, 2>{call.x, call.y}, call.scalars, values),
        Contains("kernel cast: it takes 4 tensors, got 2; give, in this order: x bf16 [tokens, 256], y e4m3 "
                 "[tokens, 256], sf f32 [tokens, (tokens + 127) / 128], scale u8 [tokens, 6]"));
}

TEST_CASE("a kernel with too many parameters is refused once") {
    auto program = test::cast_signature();
    for (int i = 0; i < 60; ++i) program->scalars.push_back({"s" + std::to_string(i), i64, 1, {}});
    CHECK_THROWS_WITH(LaunchPlan(program), Contains("kernel cast has 69 parameters; at most 64"));
}
