#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/ir/walk.hpp"
#include "dsl/lower/expressions.hpp"
#include "dsl/lower/plan.hpp"

// Copies in bulk: what the copy engine can take as rows, each started by a thread.

namespace tessera::lower {

namespace {

/// Looks at one copy. Every refusal names the tensor or tile and what would help where the copy stands.
class BulkCheck {
public:
    BulkCheck(const ir::Program& program, const ir::Copy& copy, const Target& target, int axis, std::int64_t row)
        : facts_(program),
          program_(program),
          copy_(copy),
          target_(target),
          axis_(axis),
          row_(row),
          tensor_(program.tensors[static_cast<std::size_t>(copy.from.memory)]),
          tile_(program.shared[static_cast<std::size_t>(copy.to.memory)]) {}

    /// Why no row of the piece can be moved in bulk, and the cure; empty if it can.
    std::string fault() const {
        const char* const type = name_of(tile_.type);
        if (tile_.swizzle.bits != 0)
            return fmt::format("{} has a swizzle, and these rows lie side by side; declare it without one{}",
                               tile_.name, in_ring() ? "" : ", or take Copies::tensor, which writes operand_swizzle");
        if (axis_ < 0)
            return fmt::format(
                "no axis of the piece is contiguous both in {} and in {}; let the last axis of the tile "
                "be the one along which the tensor is contiguous",
                tensor_.name, tile_.name);
        if (!is_whole(row_))
            return fmt::format("a row of {} {} is no multiple of 16 bytes; choose a tile whose rows are", row_, type);
        int unused = 0;
        if (const int vector = longest_vector(program_, copy_.from, target_, unused); !is_whole(vector))
            return fmt::format(
                "{} is read in vectors of {} {} only; record alignments and multiples (align, multiple_of), and choose "
                "extents, strides and offsets of 16 bytes where they are numbers",
                tensor_.name, vector, type);
        if (const int vector = longest_vector(program_, copy_.to, target_, unused); !is_whole(vector))
            return fmt::format(
                "{} is written in vectors of {} {} only; give it a last axis of a multiple of 16 bytes, and copy to "
                "where such a multiple begins",
                tile_.name, vector, type);
        return edge_fault();
    }

private:
    bool is_whole(std::int64_t elements) const { return elements * bits_of(tile_.type) % 128 == 0; }

    /// Whether rows lie wholly inside of the tensor or outside.
    std::string edge_fault() const {
        const auto along = static_cast<std::size_t>(tile_axes(copy_.from)[static_cast<std::size_t>(axis_)]);
        const ir::Axis& a = tensor_.axes[along];
        const std::string otherwise =
            in_ring() ? "" : "; or take Copies::tensor or Copies::vectors, which mind the edge";
        if (a.inner != 1)
            return fmt::format("axis {} of {} is packed; declare the tensor without", along, tensor_.name);
        const Ref offset = copy_.from.axes[along].offset;
        if (facts_.inside(offset, row_, a.extent)) return "";
        std::int64_t extent = 0;
        if (facts_.is_multiple(a.extent, row_)) {
            if (facts_.is_multiple(offset, row_)) return "";
            return fmt::format(
                "the offset along axis {} of {} is not known to be a multiple of the row's {} elements; "
                "take the piece by block, which counts in rows, or record multiple_of({}) of the numbers "
                "that it is made of{}",
                along, tensor_.name, row_, row_, otherwise);
        }
        if (constant_value(a.extent, extent))
            return fmt::format("a row of {} elements does not divide {}'s extent {}; choose a tile that does{}", row_,
                               tensor_.name, extent, otherwise);
        return fmt::format(
            "{}'s extent along axis {} is known only at launch, and a row of {} elements must divide it; record that "
            "with multiple_of({}) of k.dim, or give the extent as a number{}",
            tensor_.name, along, row_, row_, otherwise);
    }

    bool in_ring() const {
        bool found = false;
        for (const ir::Statement& s : program_.body) {
            const auto* role = s.as<ir::For>();
            if (!role || role->role < 0) continue;
            ir::for_each_statement(role->body, [&](const ir::Statement& inner) {
                const auto* commit = inner.as<ir::CommitCopies>();
                found = found || (commit && commit->mbarriers == copy_.mbarriers);
            });
        }
        return found;
    }

    Facts facts_;
    const ir::Program& program_;
    const ir::Copy& copy_;
    const Target& target_;
    int axis_;          // of the piece, along which rows lie; −1: none
    std::int64_t row_;  // elements
    const ir::TensorParam& tensor_;
    const ir::SharedTile& tile_;
};

}  // namespace

Layout bulk_layout(const ir::Program& program, const ir::Copy& copy, const Shape& extents, const Place& place,
                   const Target& target, int axis, int& vector) {
    constexpr int warp = 32;
    const std::string fault = BulkCheck(program, copy, target, axis, axis < 0 ? 0 : extents[axis]).fault();
    if (!fault.empty())
        throw UsageError(place, fmt::format("a bulk copy moves whole rows of a piece, multiples of 16 bytes at such "
                                            "addresses: {}",
                                            fault));
    vector = static_cast<int>(extents[axis]);
    Shape inner;
    for (int i = 0; i < extents.rank(); ++i) inner.push_back(i == axis ? vector : 1);
    return canonical(natural_layout(extents, axis, inner, warp));
}

}  // namespace tessera::lower
