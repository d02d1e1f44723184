#include "dsl/ir/effects.hpp"
#include "dsl/ir/equal.hpp"
#include "dsl/ir/print.hpp"
#include "tests/ir/verify_support.hpp"

// Copies by tensor maps in both stages.

using namespace tessera;
using namespace tessera::ir;
using namespace tessera::ir::sample;

namespace {

/// The recorded sample with z[8 … 39] on its way to half of a tile, by a tensor map.
struct CopyingPiece : Recorded {
    CopyingPiece() {
        p.tensors.push_back({"z", f32, Role::input, {{wide(64), wide(1)}}, 16, line(4)});
        p.shared.push_back({"landing", f32, {64}, {}, line(4)});
        p.shared.push_back({"full", u64, Shape{2}, {}, line(4)});
        const int full = static_cast<int>(p.shared.size()) - 1;
        p.body.push_back(statement(InitMbarriers{full}));
        p.body.push_back(statement(Copy{{Space::global, 2, {{wide(8), 32, false}}},
                                        {Space::shared, full - 1, {{wide(0), 32, false}}},
                                        {},
                                        full,
                                        wide(1),
                                        true}));
    }
    Copy& copy() { return *p.body.back().as<Copy>(); }
};

/// The lowered sample with a box of [4, 32] FP32 of a matrix, under the swizzle of 128 bytes.
struct CopyingBox : Lowered {
    int full;
    CopyingBox() {
        p.tensors.push_back({"z", f32, Role::input, {{wide(64), wide(256)}, {wide(256), wide(1)}}, 16, line(4)});
        p.maps.push_back({"z_map", 2, {4, 32}, 128});
        const std::int64_t place = (p.shared_bytes + 1023) / 1024 * 1024;
        p.shared.push_back({"landing", f32, {8, 32}, engine_swizzle(128, 32), line(4), place});
        p.shared.push_back({"full", u64, Shape{2}, {}, line(4), place + 1024});
        p.shared_bytes = place + 1152;
        full = static_cast<int>(p.shared.size()) - 1;
        p.body.push_back(statement(InitMbarriers{full}));
        CopyBox box;
        box.tensor = 2, box.from = {narrow(60), narrow(-4)};
        box.tile = full - 1, box.to = {narrow(0), narrow(0)}, box.offset = narrow(0);
        box.predicate = inside, box.mbarriers = full, box.stage = narrow(1);
        p.body.push_back(statement(box));
    }
    CopyBox& box() { return *p.body.back().as<CopyBox>(); }
    SharedTile& tile() { return p.shared[p.shared.size() - 2]; }
};

}  // namespace

TEST_CASE("copies by tensor maps print, read the tensor and write the tile and the mbarrier") {
    CopyingPiece recorded;
    CHECK(verdict(recorded.p) == "");
    CHECK(print_line(recorded.p, recorded.p.body.back()) ==
          "copy box z.block[32] at (8) to landing.block[32] at (0), counted by full[1]");
    CopyingBox s;
    CHECK(verdict(s.p) == "");
    CHECK(print_line(s.p, s.p.body.back()) ==
          "copy box z_map[60, -4] to landing[0, 0] at 0 if row < tokens, counted by full[1]");
    CHECK(print(s.p).find("map z_map of z: boxes [4, 32] swizzled over 128 bytes\n") != std::string::npos);
    CHECK(reads_of(s.p.body.back()).memories == std::vector<MemoryId>{{Space::global, 2}});
    CHECK(writes_of(s.p.body.back()).memories ==
          std::vector<MemoryId>{{Space::shared, s.full - 1}, {Space::shared, s.full}});
}

TEST_CASE("what differs in a box or its map is not equal") {
    const auto change = [](auto&& by) {
        CopyingBox a, b;
        CHECK(equal(a.p, b.p));
        by(b);
        return equal(a.p, b.p);
    };
    CHECK_FALSE(change([](CopyingBox& s) { s.box().from[1] = s.narrow(0); }));
    CHECK_FALSE(change([](CopyingBox& s) { s.box().to[0] = s.narrow(4); }));
    CHECK_FALSE(change([](CopyingBox& s) { s.box().offset = s.narrow(128); }));
    CHECK_FALSE(change([](CopyingBox& s) { s.box().stage = s.narrow(0); }));
    CHECK_FALSE(change([](CopyingBox& s) { s.box().tile = 0; }));
    CHECK_FALSE(change([](CopyingBox& s) { s.p.maps[0].box[0] = 8; }));
    CHECK_FALSE(change([](CopyingBox& s) { s.p.maps[0].swizzle = 0; }));
    CHECK_FALSE(change([](CopyingBox& s) { s.p.maps[0].name = "other"; }));
    CHECK_FALSE(change([](CopyingBox& s) { s.p.maps.clear(); }));
    CopyingPiece a, b;
    b.copy().tensor = false;
    CHECK_FALSE(equal(a.p, b.p));
}

TEST_CASE("a box is one that the copy engine takes") {
    using C = CopyingBox;
    const Breach<C> breaches[] = {
        {"index-range", "no such tensor map", [](C& s) { s.box().map = 1; }},
        {"copy", "the tensor of a box is its map's", [](C& s) { s.box().tensor = 0; }},
        {"role", "an output tensor is copied from", [](C& s) { s.p.tensors[2].role = Role::output; }},
        {"operand-type", "not the same type", [](C& s) { s.p.tensors[2].type = i32; }},
        {"mbarrier", "mbarriers count what tensor maps copy",
         [](C& s) { s.box().mbarriers = -1, s.box().stage = nullptr; }},
        {"mbarrier", "neither loaded nor stored",
         [](C& s) {
             s.p.tensors[2].type = u64;
             s.p.maps[0] = {"z_map", 2, {1, 2}, 0};
             s.box().tile = s.full, s.box().to = {s.narrow(0)};
         }},
        {"coordinates", "for each axis", [](C& s) { s.box().from.pop_back(); }},
        {"coordinates", "i32 of rank 0", [](C& s) { s.box().to[0] = s.wide(0); }},
        {"predicate", "boolean", [](C& s) { s.box().predicate = s.narrow(1); }},
        {"swizzle", "not the swizzle of the map", [](C& s) { s.tile().swizzle = {}; }},
        {"swizzle", "not the swizzle of the map", [](C& s) { s.p.maps[0].swizzle = 0; }},
        {"align", "does not suit", [](C& s) { s.tile().byte_offset -= 128; }},
        {"lanes", "larger than the tile", [](C& s) { s.p.maps[0].box[0] = 16; }},
        {"map", "1 to 256", [](C& s) { s.p.maps[0].box[0] = 257; }},
        {"map", "an extent for each axis", [](C& s) { s.p.maps[0].box = {32}; }},
        {"map", "multiples of 16 bytes", [](C& s) { s.p.maps[0].box[1] = 30; }},
        {"map", "such a base", [](C& s) { s.p.tensors[2].align = 8; }},
        {"map", "the 32, 64 or 128 bytes of a row", [](C& s) { s.p.maps[0].swizzle = 64; }},
        {"map", "is contiguous", [](C& s) { s.p.tensors[2].axes[1].stride = s.wide(2); }},
        {"map", "packed", [](C& s) { s.p.tensors[2].axes[0].inner = 4; }},
        {"index-range", "no tensor of the program", [](C& s) { s.p.maps[0].tensor = 9; }},
        {"names", "two launch arguments", [](C& s) { s.p.maps[0].name = "z"; }},
    };
    check_breaches(breaches);
    const Breach<CopyingPiece> recorded[] = {
        {"mbarrier", "mbarriers count what tensor maps copy",
         [](CopyingPiece& s) { s.copy().mbarriers = -1, s.copy().stage = nullptr; }},
        {"per-thread", "one thread copies a box", [](CopyingPiece& s) { s.copy().per_thread = Shape{4}; }},
        {"stage", "a recorded program has no tensor maps",
         [](CopyingPiece& s) { s.p.maps.push_back({"z_map", 2, {32}, 0}); }},
    };
    check_breaches(recorded);
}
