#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/ir/tensor_map.hpp"
#include "dsl/lower/tile_code.hpp"

// Copies by tensor maps: what the copy engine can take as one box, and the statement that one thread starts it by.

namespace tessera::lower {

namespace {

/// Looks at one copy. Every refusal names the tensor or tile and what would help.
class BoxCheck {
public:
    BoxCheck(const ir::Program& program, const ir::Copy& copy, const Place& place)
        : facts_(program),
          copy_(copy),
          place_(place),
          tensor_(program.tensors[static_cast<std::size_t>(copy.from.memory)]),
          tile_(program.shared[static_cast<std::size_t>(copy.to.memory)]),
          bytes_(bits_of(tensor_.type) / 8) {}

    ir::TensorMap run() const {
        if (bits_of(tensor_.type) % 8 != 0)
            refuse("elements of {} share bytes; declare the tensor as u8, or copy by vectors", name_of(tensor_.type));
        if (!copy_.per_thread.empty()) refuse("one thread copies the whole piece; leave per_thread out");
        check_tensor();
        ir::TensorMap map{"", copy_.from.memory, sides(), 0};
        check_piece();
        map.swizzle = swizzle();
        check_place(map.alignment());
        return map;
    }

private:
    template <class... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
        throw UsageError(place_, "a copy of " + tensor_.name +
                                     " by a tensor map: " + fmt::format(text, std::forward<Args>(args)...));
    }

    void check_tensor() const {
        const int rank = static_cast<int>(tensor_.axes.size());
        if (rank > ir::TensorMap::most_axes)
            refuse("the tensor has {} axes, and such a map at most {}; declare it with fewer, or copy in bulk", rank,
                   ir::TensorMap::most_axes);
        if (tensor_.align < 16)
            refuse("its base is known to be a multiple of {} bytes only, and 16 are needed; record {{.align = 16}}",
                   tensor_.align);
        std::int64_t step = 0;
        if (!constant_value(tensor_.axes.back().stride, step) || step != 1)
            refuse("its last axis is not contiguous; put the contiguous axis last, or copy by vectors");
        for (int i = 0; i < rank; ++i) {
            const ir::Axis& axis = tensor_.axes[static_cast<std::size_t>(i)];
            if (axis.inner != 1) refuse("axis {} is packed, which a map cannot say; copy by vectors", i);
            if (i + 1 < rank && constant_value(axis.stride, step) && step * bytes_ % 16 != 0)
                refuse(
                    "the stride along axis {} is {} elements, {} bytes, no multiple of 16; pad the rows "
                    "(TensorOptions::strides), or copy by vectors",
                    i, step, step * bytes_);
            if (i + 1 < rank && facts_.divisor(axis.stride) * bytes_ % 16 != 0)
                refuse(
                    "the stride along axis {} is not known to be a multiple of 16 bytes; record what its numbers "
                    "are multiples of (multiple_of({}))",
                    i, 16 / bytes_);
        }
    }

    Shape sides() const {
        Shape box;
        for (std::size_t i = 0; i < copy_.from.axes.size(); ++i) {
            const ir::ViewAxis& axis = copy_.from.axes[i];
            if (!axis.offset->scalar())
                refuse("it is gathered by indices along axis {}, and a box is of neighbours; copy by vectors", i);
            if (axis.extent > ir::TensorMap::most_side)
                refuse("the piece has extent {} along axis {}, and a box at most {}; make several copies of it",
                       axis.extent, i, ir::TensorMap::most_side);
            box.push_back(axis.extent);
        }
        if (facts_.divisor(copy_.from.axes.back().offset) * bytes_ % 16 != 0)
            refuse(
                "the piece is not known to begin at a multiple of 16 bytes along the last axis; make its offset there "
                "a multiple of {} elements (multiple_of({}))",
                16 / bytes_, 16 / bytes_);
        if (box.back() * bytes_ % 16 != 0)
            refuse("rows of the piece have {} bytes, and the copy engine moves multiples of 16; make them longer",
                   box.back() * bytes_);
        return box;
    }

    /// The piece of the tile is one run of elements.
    void check_piece() const {
        bool whole = true;
        for (std::size_t i = copy_.to.axes.size(); i-- > 0;) {
            const std::int64_t extent = copy_.to.axes[i].extent;
            if (!copy_.to.axes[i].offset->scalar()) refuse("it is scattered by indices, and a box lies dense");
            if (!whole && extent != 1)
                refuse(
                    "the piece of {} is not one run of elements, as the copy engine writes it; take whole rows of "
                    "the tile, or a tile for each piece",
                    tile_.name);
            whole = whole && extent == tile_.shape[static_cast<int>(i)];
        }
    }

    /// Bytes of the rows that the tile's swizzle is over.
    int swizzle() const {
        if (tile_.swizzle.bits == 0) return 0;
        const std::int64_t row = copy_.to.axes.back().extent * bytes_, whole = tile_.shape.back() * bytes_;
        for (const int bytes : {32, 64, 128}) {
            const ir::Swizzle s = ir::engine_swizzle(bytes, bits_of(tile_.type));
            const bool same =
                s.bits == tile_.swizzle.bits && s.base == tile_.swizzle.base && s.shift == tile_.swizzle.shift;
            if (same && row == bytes && whole == bytes && !copy_.to.axes.back().picked) return bytes;
        }
        const std::string has = fmt::format(
            "{} has rows of {} bytes under the swizzle (bits {}, base {}, shift {}), which the copy engine "
            "does not write",
            tile_.name, whole, tile_.swizzle.bits, tile_.swizzle.base, tile_.swizzle.shift);
        if (whole == 32 || whole == 64 || whole == 128)
            refuse(
                "{}; declare the tile with operand_swizzle<{}>({}) and copy whole rows of it, or leave the swizzle out",
                has, name_of(tile_.type), tile_.shape.back());
        refuse(
            "{}; cut the tile into rows of 32, 64 or 128 bytes, a tile [K / W, rows, W] with operand_swizzle<{}>(W), "
            "or leave the swizzle out",
            has, name_of(tile_.type));
    }

    void check_place(int alignment) const {
        std::int64_t stride = bytes_;
        for (std::size_t i = copy_.to.axes.size(); i-- > 0;) {
            if (facts_.divisor(copy_.to.axes[i].offset) * stride % alignment != 0)
                refuse(
                    "the piece of {} is not known to begin at a multiple of {} bytes, as the copy engine needs it; "
                    "make what lies behind axis {} of the tile such a multiple",
                    tile_.name, alignment, i);
            stride *= tile_.shape[static_cast<int>(i)];
        }
    }

    Facts facts_;
    const ir::Copy& copy_;
    const Place& place_;
    const ir::TensorParam& tensor_;
    const ir::SharedTile& tile_;
    std::int64_t bytes_;  // of an element
};

}  // namespace

ir::TensorMap box_of(const ir::Program& program, const ir::Copy& copy, const Place& place) {
    return BoxCheck(program, copy, place).run();
}

/// Index of the map of such boxes; uses that want the same share one.
int TileCode::map_of(const ir::Copy& copy) {
    ir::TensorMap map = box_of(in_, copy, place_);
    for (std::size_t i = 0; i < out_.maps.size(); ++i) {
        const ir::TensorMap& known = out_.maps[i];
        if (known.tensor == map.tensor && known.box == map.box && known.swizzle == map.swizzle)
            return static_cast<int>(i);
    }
    if (out_.maps.size() == ir::TensorMap::most)
        throw UsageError(place_, fmt::format("copies of more than {} kinds of boxes, each of which needs a tensor map; "
                                             "copy pieces of equal extents, or by vectors",
                                             ir::TensorMap::most));
    map.name = new_name(memory_name(copy.from) + "_map");
    out_.maps.push_back(std::move(map));
    return static_cast<int>(out_.maps.size()) - 1;
}

/// The copy engine counts in 32 bits, with a sign; what is far outside stays outside.
Ref TileCode::box_coordinate(Ref offset) {
    constexpr std::int64_t most = ir::most_mapped_extent;
    Ref at = scalar(offset);
    std::int64_t number = 0;
    if (constant_value(at, number)) return e_.i32(std::clamp(number, -most, most));
    if (!facts_.inside(offset, 1, e_.i64(most))) at = e_.binary(ir::BinaryOp::min, at, e_.i64(most));
    if (!facts_.non_negative(offset)) at = e_.binary(ir::BinaryOp::max, at, e_.i64(-most));
    return e_.narrow(at);
}

void TileCode::copy_box(const ir::Copy& copy) {
    ir::CopyBox box;
    box.map = map_of(copy);
    box.tensor = copy.from.memory;
    box.tile = copy.to.memory;
    for (const ir::ViewAxis& axis : copy.from.axes) box.from.push_back(box_coordinate(axis.offset));
    box.offset = e_.i32(0);
    for (std::size_t i = 0; i < copy.to.axes.size(); ++i) {
        box.to.push_back(e_.narrow(scalar(copy.to.axes[i].offset)));
        box.offset = e_.add(box.offset, e_.mul(box.to.back(), stride_of(copy.to, i)));
    }
    box.predicate = e_.binary(ir::BinaryOp::eq, e_.thread(), e_.i32(0));
    box.mbarriers = copy.mbarriers;
    box.stage = e_.narrow(scalar(copy.stage));
    emit(std::move(box));
}

}  // namespace tessera::lower
