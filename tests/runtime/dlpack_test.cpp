#include "runtime/dlpack.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "dsl/base/error.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using dlpack::ManagedTensorVersioned;

namespace {

/// A foreign tensor of extents {2, 3} that counts its deletions.
struct Foreign {
    std::vector<std::int64_t> shape{2, 3}, strides{4, 1};
    std::vector<std::uint8_t> data = std::vector<std::uint8_t>(64, 9);
    int deleted = 0;
    ManagedTensorVersioned managed{};

    Foreign(std::uint8_t code, std::uint8_t bits, std::uint16_t lanes = 1) {
        managed.context = this;
        managed.deleter = [](ManagedTensorVersioned* m) { ++static_cast<Foreign*>(m->context)->deleted; };
        managed.tensor = {data.data(), {dlpack::cpu, 0}, 2, {code, bits, lanes}, shape.data(), strides.data(), 0};
    }
};

}  // namespace

TEST_CASE("a tensor handed out through DLPack shows the same memory and lives until it is released") {
    std::weak_ptr<void> memory;
    ManagedTensorVersioned* out = nullptr;
    {
        const Tensor t = Tensor::zeros(Device(), bf16, {3, 8});
        memory = t.owner();
        out = to_dlpack(t);
        CHECK(out->tensor.data == t.data());
    }
    CHECK(out->version.major == 1);
    CHECK(out->flags == 0);
    CHECK(out->tensor.rank == 2);
    CHECK(out->tensor.device.type == 1);
    CHECK(out->tensor.type.code == 4);
    CHECK(out->tensor.type.bits == 16);
    CHECK(out->tensor.type.lanes == 1);
    CHECK((out->tensor.shape[0] == 3 && out->tensor.shape[1] == 8));
    CHECK((out->tensor.strides[0] == 8 && out->tensor.strides[1] == 1));
    CHECK_FALSE(memory.expired());
    out->deleter(out);
    CHECK(memory.expired());
}

TEST_CASE("type codes are the standard's") {
    const auto code = [](Element e) {
        ManagedTensorVersioned* out = to_dlpack(Tensor::empty(Device(), e, {4}));
        const int packed = out->tensor.type.code * 1000 + out->tensor.type.bits;
        out->deleter(out);
        return packed;
    };
    CHECK(code(i8) == 8);
    CHECK(code(i64) == 64);
    CHECK(code(u32) == 1032);
    CHECK(code(f16) == 2016);
    CHECK(code(f64) == 2064);
    CHECK(code(bf16) == 4016);
    CHECK(code(boolean) == 6008);
    CHECK(code(e4m3) == 10008);
    CHECK(code(e5m2) == 12008);
    CHECK(code(ue8m0) == 14008);
    CHECK(code(e2m1) == 17004);
    CHECK_THROWS_WITH(to_dlpack(Tensor::empty(Device(), e5m6, {4})), Contains("DLPack has no type for e5m6"));
    CHECK_THROWS_AS(to_dlpack(Tensor::empty(Device(), tf32, {4})), UsageError);
}

TEST_CASE("every type that goes out comes back") {
    for (int i = 0; i < element_count; ++i) {
        const auto element = static_cast<Element>(i);
        if (element == tf32 || element == e5m6) continue;
        const Tensor t = Tensor::zeros(Device(), element, {2, 4, 6});
        const Tensor back = from_dlpack(to_dlpack(t));
        CHECK(back.data() == t.data());
        CHECK(back.element() == element);
        CHECK(back.extents() == t.extents());
        CHECK(back.strides() == t.strides());
    }
}

TEST_CASE("a foreign tensor is taken over without a copy and deleted once") {
    Foreign f(2, 32);
    f.managed.tensor.byte_offset = 8;
    f.managed.flags = dlpack::flag_read_only;
    {
        const Tensor t = from_dlpack(&f.managed);
        const Tensor copy_of_it = t;
        CHECK(t.data() == f.data.data() + 8);
        CHECK(t.element() == f32);
        CHECK(t.extents() == Shape{2, 3});
        CHECK(t.strides() == Shape{4, 1});
        CHECK(t.view().read_only);
        CHECK(f.deleted == 0);
    }
    CHECK(f.deleted == 1);

    f.managed.tensor.strides = nullptr;
    CHECK(from_dlpack(&f.managed).strides() == Shape{3, 1});
}

TEST_CASE("paired e2m1 becomes single codes") {
    Foreign f(17, 4, 2);
    const Tensor t = from_dlpack(&f.managed);
    CHECK(t.element() == e2m1);
    CHECK(t.extents() == Shape{2, 6});
    CHECK(t.strides() == Shape{8, 1});
    f.strides = {1, 2};
    CHECK_THROWS_WITH(from_dlpack(&f.managed), Contains("paired e2m1 whose last axis is not dense"));
}

TEST_CASE("what Tessera cannot read is refused and stays the caller's") {
    const auto refused = [](Foreign& f, const char* why) {
        CHECK_THROWS_WITH(from_dlpack(&f.managed), Contains(why));
        CHECK(f.deleted == 0);
    };
    Foreign version(2, 32), complex(5, 64), vector(2, 32, 4), device(2, 32), rank(2, 32), padded(17, 4);
    version.managed.version.major = 2;
    refused(version, "version 2.");
    refused(complex, "type code 5 with 64 bits");
    refused(vector, "4 lanes");
    device.managed.tensor.device.type = 10;
    refused(device, "a device of type 10");
    rank.managed.tensor.rank = 9;
    refused(rank, "9 axes");
    padded.managed.flags = dlpack::flag_subbyte_padded;
    refused(padded, "every element in a byte of its own");
    CHECK_THROWS_AS(from_dlpack(nullptr), UsageError);
}
