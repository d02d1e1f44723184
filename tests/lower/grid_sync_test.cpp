#include "tests/lower/run.hpp"

// Blocks that wait for each other: what all have written is there after the sync, and each keeps its own state.

using namespace tessera;
using namespace tessera::test;

namespace {

/// Two rounds of handing a row to the next block, on top of what the block holds in registers and shared memory.
Program relay() {
    return record("relay", [](Kernel& k) {
        const Dim blocks = k.dim("blocks");
        const auto x = k.input<i32>("x", {blocks, 64});
        const auto mail = k.inout<i32>("mail", {blocks, 64});
        const auto y = k.output<i32>("y", {blocks, 64});
        k.threads(64);
        const auto [m] = k.grid(blocks);
        const auto own = k.shared<i32>("own", {64});
        const auto v = load(x.block({1, 64}, {m, 0}));
        store(own.whole(), v.squeeze(axis<0>));
        store(mail.block({1, 64}, {m, 0}), v);
        k.grid_sync();
        const auto one = load(mail.block({1, 64}, {(m + 1) % blocks, 0}));
        k.grid_sync();
        store(mail.block({1, 64}, {m, 0}), one + v);
        k.grid_sync();
        const auto two = load(mail.block({1, 64}, {(m + 1) % blocks, 0}));
        const auto mirrored = load(own.window({64}, {63 - coordinates({64}, axis<0>)}));
        store(y.block({1, 64}, {m, 0}), two + mirrored.unsqueeze(axis<0>));
    });
}

template <class Body>
std::string refused(Body&& body) {
    try {
        record("refused", [&](Kernel& k) {
            const auto [m] = k.grid(4);
            body(k, m);
        });
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("blocks hand values to each other across grid syncs", "[lower]") {
    on_targets(relay(), [](const Lowered& kernel) {
        CHECK(kernel.program().cooperative);
        CHECK(kernel.count<ir::GridSync>() == 3);
        CHECK(kernel.text().find("grid_sync();") != std::string::npos);
        for (const std::int64_t blocks : {1, 2, 7, 64}) {
            auto x = numbers<std::int32_t>(blocks * 64);
            std::vector<std::int32_t> mail(x.size(), 5), y(x.size(), 7), expected(x.size());
            const auto at = [&](std::int64_t block, std::int64_t i) { return x[block % blocks * 64 + i]; };
            for (std::int64_t b = 0; b < blocks; ++b)
                for (std::int64_t i = 0; i < 64; ++i)
                    expected[b * 64 + i] = at(b + 2, i) + at(b + 1, i) + at(b, 63 - i);
            kernel.run({static_cast<std::uint64_t>(blocks)}, x, mail, y);
            CHECK(y == expected);
        }
    });
}

TEST_CASE("with several workers and without checks blocks wait for each other, too", "[lower]") {
    const auto lowered = std::make_shared<const ir::Program>(lower::lower(relay().ir(), Target::h200()));
    for (const bool check : {true, false})
        for (const int workers : {1, 3, 8}) {
            auto x = numbers<std::int32_t>(20 * 64);
            std::vector<std::int32_t> mail(x.size()), y(x.size());
            host::Executable(lowered).run({{x.data(), mail.data(), y.data()}, {20}},
                                          {.check = check, .workers = workers});
            CHECK(y[64] == x[3 * 64] + x[2 * 64] + x[64 + 63]);
            CHECK(y[19 * 64 + 63] == x[64 + 63] + x[63] + x[19 * 64]);
        }
}

TEST_CASE("an error in one block ends the launch, whatever the others wait for", "[lower]") {
    const Program p = record("fails", [](Kernel& k) {
        const Dim blocks = k.dim("blocks");
        const auto mail = k.inout<i32>("mail", {blocks});
        k.threads(32);
        const auto [m] = k.grid(blocks);
        const auto v = load(mail.block({1}, {m}));
        k.report(v < 0, "mail is not negative", mail.block({1}, {m}), v);
        k.grid_sync();
        store(mail.block({1}, {m}), v + 1);
    });
    const auto lowered = std::make_shared<const ir::Program>(lower::lower(p.ir(), Target::h200()));
    std::vector<std::int32_t> mail = {1, 2, -3, 4};
    CHECK_THROWS_WITH(host::Executable(lowered).run({{mail.data()}, {4}}), Catch::Contains("mail[2] is -3"));
    CHECK(mail == std::vector<std::int32_t>{2, 3, -2, 5});
}

TEST_CASE("a barrier of the block is not needed beside a grid sync", "[lower]") {
    const Program p = record("order", [](Kernel& k) {
        const auto y = k.output<i32>("y", {2, 64});
        k.threads(64);
        const auto [m] = k.grid(2);
        const auto own = k.shared<i32>("own", {64});
        store(own.whole(), cast<i32>(coordinates({64}, axis<0>)));
        k.grid_sync();
        store(y.block({1, 64}, {m, 0}), load(own.window({64}, {63 - coordinates({64}, axis<0>)})).unsqueeze(axis<0>));
    });
    on_targets(p, [](const Lowered& kernel) {
        CHECK(kernel.count<ir::Barrier>() == 0);
        std::vector<std::int32_t> y(128);
        kernel.run({}, y);
        CHECK(y[64] == 63);
    });
}

TEST_CASE("grid syncs stand at the top level, of kernels that start as a whole", "[lower]") {
    const auto contains = [](const char* text) { return Catch::Contains(text); };
    CHECK_THAT(refused([](Kernel& k, const Index&) { k.serial(2, [&](const Index&) { k.grid_sync(); }); }),
               contains("grid_sync_test.cpp"));
    CHECK_THAT(refused([](Kernel& k, const Index&) { k.serial(2, [&](const Index&) { k.grid_sync(); }); }),
               contains("grid_sync in a loop or a condition"));
    CHECK_THAT(refused([](Kernel& k, const Index& m) { k.when(m == 0, [&] { k.grid_sync(); }); }),
               contains("grid_sync in a loop or a condition"));
    CHECK_THAT(refused([](Kernel& k, const Index&) { k.dependent_launch(), k.grid_sync(); }),
               contains("with k.dependent_launch()"));
    CHECK_THAT(refused([](Kernel& k, const Index&) { k.grid_sync(), k.dependent_launch(); }),
               contains("with k.grid_sync()"));
}
