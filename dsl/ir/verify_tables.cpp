#include <algorithm>
#include <string>
#include <vector>

#include "dsl/ir/diagnosis.hpp"
#include "dsl/ir/report.hpp"
#include "dsl/ir/verify_scopes.hpp"

// Rules of what stands before a program's body.

namespace tessera::ir::detail {

namespace {

bool power_of_two(std::int64_t n) { return n >= 1 && (n & (n - 1)) == 0; }

void verify_launch_number(const Diagnosis& at, Scopes& scopes, Ref node, const char* rule) {
    at.require(node != nullptr, "operand-missing", nullptr, "an extent or stride is missing");
    scopes.verify_expression(at, node, true);
    at.require(node->type == i64 && node->scalar(), rule, node, "extents and strides are i64 of rank 0");
    at.require(known_at_launch(node), rule, node, "extents and strides are made of scalars and constants alone");
}

void verify_names(const Diagnosis& at, std::vector<std::string> names, const char* why) {
    std::sort(names.begin(), names.end());
    at.require(std::adjacent_find(names.begin(), names.end()) == names.end(), "names", nullptr, why);
    at.require(names.empty() || !names.front().empty(), "names", nullptr, "a name is empty");
}

void verify_tensors(const Diagnosis& at, Scopes& scopes) {
    for (const TensorParam& t : at.program.tensors) {
        at.require(power_of_two(t.align) && 8 * t.align >= bits_of(t.type), "tensor", nullptr,
                   "a tensor's align is a power of two, of an element at least");
        for (const Axis& axis : t.axes) {
            verify_launch_number(at, scopes, axis.extent, "tensor");
            verify_launch_number(at, scopes, axis.stride, "tensor");
            at.require(axis.inner >= 1, "tensor", nullptr, "the inner extent of a packed axis is below 1");
        }
    }
    for (const ScalarParam& s : at.program.scalars)
        at.require(s.multiple_of >= 1, "scalar", nullptr, "a scalar is a multiple of 1 at least");
}

void verify_shared(const Diagnosis& at) {
    const Program& p = at.program;
    for (const SharedTile& t : p.shared) {
        for (std::int64_t extent : t.shape) at.require(extent >= 1, "shared-tile", nullptr, "an extent is below 1");
        const Swizzle& s = t.swizzle;
        at.require(s.bits >= 0 && s.base >= 0 && s.shift >= 0 && s.bits + s.base + s.shift <= 40 &&
                       (s.bits == 0 || s.shift >= s.bits),
                   "shared-tile", nullptr,
                   "a swizzle's shift is at least its bits, so that what is XORed stays as it is");
        at.require(s.bits == 0 || t.shape.count() % (std::int64_t{1} << (s.bits + s.base)) == 0, "shared-tile", nullptr,
                   "the span of a swizzle does not divide its tile");
        if (p.stage == Stage::recorded) continue;
        const std::int64_t bits = bits_of(t.type);
        at.require(t.byte_offset >= 0 && (bits % 8 != 0 || t.byte_offset * 8 % bits == 0), "shared-tile", nullptr,
                   "a lowered shared tile has a place that suits its elements");
        at.require(t.byte_offset + (t.shape.count() * bits + 7) / 8 <= p.shared_bytes, "shared-tile", nullptr,
                   "a shared tile runs past the block's shared memory");
    }
}

void verify_maps(const Diagnosis& at) {
    const Program& p = at.program;
    at.require(p.maps.empty() || p.stage == Stage::lowered, "stage", nullptr, "a recorded program has no tensor maps");
    at.require(p.maps.size() <= TensorMap::most, "map", nullptr, "a program has more tensor maps than a launch takes");
    for (const TensorMap& m : p.maps) {
        at.require(m.tensor >= 0 && static_cast<std::size_t>(m.tensor) < p.tensors.size(), "index-range", nullptr,
                   "a map is of no tensor of the program");
        const TensorParam& t = p.tensors[static_cast<std::size_t>(m.tensor)];
        const int rank = static_cast<int>(t.axes.size());
        at.require(m.box.rank() == rank && rank >= 1 && rank <= TensorMap::most_axes, "map", nullptr,
                   "a box has an extent for each axis of its tensor, of 1 to 5");
        for (const std::int64_t side : m.box)
            at.require(side >= 1 && side <= TensorMap::most_side, "map", nullptr, "a side of a box is 1 to 256");
        const std::int64_t row = m.box.back() * bits_of(t.type);
        at.require(bits_of(t.type) % 8 == 0 && row % 128 == 0 && t.align % 16 == 0, "map", nullptr,
                   "a box has rows of whole elements and multiples of 16 bytes, and its tensor such a base");
        at.require(m.swizzle == 0 || ((m.swizzle == 32 || m.swizzle == 64 || m.swizzle == 128) && row == m.swizzle * 8),
                   "map", nullptr, "a swizzle is over the 32, 64 or 128 bytes of a row");
        const auto* step = t.axes.back().stride->as<Constant>();
        at.require(step && step->bits == 1, "map", nullptr, "the last axis of a mapped tensor is contiguous");
        for (const Axis& axis : t.axes) at.require(axis.inner == 1, "map", nullptr, "a mapped axis is packed");
    }
}

void verify_rules(const Diagnosis& at) {
    const Program& p = at.program;
    at.require(p.rules.size() <= most_rules, "rules", nullptr, "a program has more rules than a record can tell apart");
    for (const Rule& rule : p.rules) {
        at.require(rule.tensor >= 0 && static_cast<std::size_t>(rule.tensor) < p.tensors.size(), "index-range", nullptr,
                   "a rule is of no tensor of the program");
        const std::size_t rank = p.tensors[static_cast<std::size_t>(rule.tensor)].axes.size();
        at.require(rank == 1 || rank == 2, "rules", nullptr, "a rule is of a tensor of rank 1 or 2");
        at.require(!rule.text.empty(), "rules", nullptr, "a rule says nothing");
    }
}

void verify_arrays(const Diagnosis& at) {
    for (const RegisterArray& a : at.program.arrays) {
        at.require(a.words >= 1 && a.pack >= 1, "array", nullptr, "a register array has words and a word has elements");
        at.require(a.pack == 1 || a.pack * register_bits_of(a.type) <= 32, "word-width", nullptr,
                   "the words of a register array are wider than 32 bits");
    }
}

}  // namespace

void verify_tables(const Program& p, Scopes& scopes) {
    const Diagnosis at{p};
    at.require(p.threads >= 32 && p.threads <= 1024 && p.threads % 32 == 0, "threads", nullptr,
               "a block has a multiple of 32 threads, from 32 to 1024");
    at.require(p.loops >= 0, "loop-id", nullptr, "the number of loops is negative");
    std::vector<std::string> arguments;
    for (const TensorParam& t : p.tensors) arguments.push_back(t.name);
    for (const ScalarParam& s : p.scalars) arguments.push_back(s.name);
    for (const TensorMap& m : p.maps) arguments.push_back(m.name);
    verify_names(at, arguments, "two launch arguments bear one name");
    verify_names(at, p.locals, "two locals bear one name");
    verify_tensors(at, scopes);
    for (Ref extent : p.grid) verify_launch_number(at, scopes, extent, "grid");
    verify_shared(at);
    verify_maps(at);
    verify_rules(at);
    verify_arrays(at);
}

}  // namespace tessera::ir::detail
