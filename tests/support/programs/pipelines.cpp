#include <numeric>

#include "tests/support/programs/steps.hpp"
#include "tests/support/programs/writer.hpp"

// Pipelines of copies by all three engines: what is read in a slot is added up.

namespace tessera::test {

using ir::BinaryOp;
using ir::Copies;

namespace {

std::int64_t engine_unit(Element type) { return 128 / bits_of(type); }  // elements in 16 bytes

Element sum_type(Element type) { return is_float(type) ? f32 : bits_of(type) == 64 ? i64 : i32; }

}  // namespace

detail::ViewSpec Writer::slot_of(const SharedTile& tile, Ref slot) {
    ViewSpec v = whole(tile);
    v.offset[0] = slot, v.extent[0] = 1, v.picked[0] = true;
    return v;
}

/// One of so many pieces side by side, the same for all blocks or by the block's column.
detail::Ref Writer::column_of(std::int64_t pieces, std::int64_t columns) {
    if (random_.one_in(2)) return index(columns * random_.between(0, pieces - 1));
    return times(detail::binary(BinaryOp::mod, block_[1], index(pieces), here()), columns);
}

/// Edges on all sides; sometimes the rows are picked by indices that are loaded where the copies start.
Writer::Stream Writer::vector_stream(int stages, const Length& turns) {
    const Element type = random_type();
    const std::int64_t vector = least_vector(type);
    const std::int64_t across = vector * random_.pick({1, 2, 3, 4, 8, 16}), down = random_.pick({1, 2, 3, 4, 8});
    const std::int64_t pieces = random_.between(1, 3), rows = turns.value * down;
    const Length height = length("rows", random_.between(1, rows + 2), 1);
    const Length width = length("columns", random_.between(1, pieces * across + 4), vector);
    const int memory = matrix("p", type, ir::Role::input, height, width, {vector, 4});
    const Ref column = plus(column_of(pieces, across), vector * random_.between(-1, 1));
    const std::int64_t shift = random_.between(-1, 1);
    const SharedTile tile =
        new_tile(type, {stages, down, across}, std::countr_zero(static_cast<std::uint64_t>(vector)));
    std::function<ViewSpec(Ref)> at = [=](Ref i) {
        return piece_of(memory, plus(times(i, down), shift), column, down, across);
    };
    if (random_.one_in(4) && rows > 0) {
        const int table = index_tensor(i32, rows, height.value, false);
        at = [=](Ref i) {
            ViewSpec some;
            some.memory = table, some.rank = 1;
            some.offset[0] = times(i, down), some.extent[0] = down;
            return piece_of(memory, detail::load(some, nullptr, {}, here()), column, down, across);
        };
    }
    return {memory, type, {down, across}, at, tile, copy_shares({down, across}, vector)};
}

/// All rows lie inside, as this engine asks.
Writer::Stream Writer::bulk_stream(int stages, const Length& turns) {
    const Element type = random_type();
    const std::int64_t unit = engine_unit(type);
    const std::int64_t across = unit * random_.pick({1, 2, 3, 4, 8}), down = random_.pick({1, 2, 3, 8});
    const std::int64_t pieces = random_.between(1, 3);
    const Length height = length("rows", std::max<std::int64_t>(1, turns.value * down) + random_.between(0, 2), 1);
    const Length width{index(pieces * across), pieces * across, even_part(across)};
    const int memory = matrix("p", type, ir::Role::input, height, width, {unit, 16});
    const Ref column = column_of(pieces, across);
    const auto at = [=](Ref i) { return piece_of(memory, times(i, down), column, down, across); };
    return {memory, type, {down, across}, at, declared(type, {stages, down, across}, {}), {}};
}

/// Boxes that stick out on any side, to plain rows or under the engine's swizzle.
Writer::Stream Writer::tensor_stream(int stages, const Length& turns) {
    const Element type = random_type();
    const std::int64_t unit = engine_unit(type);
    const std::int64_t across = unit * random_.pick({1, 2, 2, 3, 4, 8}), bytes = across * (bits_of(type) / 8);
    ir::Swizzle swizzle;
    std::int64_t down = 128 / std::gcd<std::int64_t>(128, bytes) * random_.pick({1, 2});
    if ((bytes == 32 || bytes == 64 || bytes == 128) && random_.one_in(2)) {
        swizzle = {std::countr_zero(static_cast<std::uint64_t>(bytes)) - 4,
                   std::countr_zero(static_cast<std::uint64_t>(unit)), 3};
        down = 8 * random_.pick({1, 2});
    }
    const Length height = length("rows", random_.between(1, turns.value * down + 2), 1);
    const Length width = length("columns", random_.between(1, 3 * across), random_.pick<std::int64_t>({1, unit}));
    const Ref column = plus(column_of(2, across), unit * random_.between(-1, 1));
    const std::int64_t shift = random_.between(-2, 2);
    const SharedTile tile = declared(type, {stages, down, across}, swizzle);
    const Facts facts{unit, 16};
    if (random_.one_in(2) || width.multiple < unit) {
        const int memory = matrix("p", type, ir::Role::input, height, width, facts);
        const auto at = [=](Ref i) { return piece_of(memory, plus(times(i, down), shift), column, down, across); };
        return {memory, type, {down, across}, at, tile, {}};
    }
    const Length layers = length("layers", turns.value + random_.between(0, 2) + (turns.value == 0), 1);
    const int memory = tensor("p", type, ir::Role::input, {{layers.node}, {height.node}, {width.node}},
                              layers.value * height.value * width.value, facts);
    const auto at = [=](Ref i) {
        ViewSpec v;
        v.memory = memory, v.rank = 3;
        v.offset[0] = i, v.offset[1] = index(shift), v.offset[2] = column;
        v.extent[0] = 1, v.extent[1] = down, v.extent[2] = across;
        v.picked[0] = true;
        return v;
    };
    return {memory, type, {down, across}, at, tile, {}};
}

Writer::Stream Writer::stream(Copies engine, int stages, const Length& turns) {
    if (engine == Copies::vectors) return vector_stream(stages, turns);
    return engine == Copies::bulk ? bulk_stream(stages, turns) : tensor_stream(stages, turns);
}

std::vector<Writer::Sum> Writer::sums_of(const std::vector<Stream>& streams) {
    std::vector<Sum> sums;
    for (const Stream& s : streams) {
        const Element type = sum_type(s.type);
        const Ref zero = detail::constant(type, std::int64_t{0}, here());
        sums.push_back({detail::variable(detail::broadcast_to(zero, s.piece, here()), here()), type});
    }
    return sums;
}

void Writer::add_up(const Sum& sum, const Stream& stream, Ref slot) {
    const Shape per_thread = random_.one_in(2) ? stream.per_thread : Shape{};
    const Ref piece = detail::load(slot_of(stream.tile, slot), nullptr, per_thread, here());
    pool_.add({piece, stream.type, stream.piece, input_bound(stream.type), true});
    const Ref addend = piece->type == sum.type ? piece : detail::cast(sum.type, piece, here());
    detail::assign(sum.variable,
                   detail::binary(BinaryOp::add, detail::variable_read(sum.variable, here()), addend, here()), here());
}

void Writer::read_sums(const std::vector<Sum>& sums, const std::vector<Stream>& streams, const Length& turns) {
    for (std::size_t s = 0; s < sums.size(); ++s)
        pool_.add({detail::variable_read(sums[s].variable, here()), sums[s].type, streams[s].piece,
                   input_bound(streams[s].type) * static_cast<double>(turns.value + 1), true});
}

void Writer::pipeline(int depth) {
    const Copies engine = depth == 0 ? random_.pick({Copies::vectors, Copies::bulk, Copies::tensor}) : Copies::vectors;
    const int stages = random_.pick({2, 2, 3, 3, 4, 5, 8});
    const Length turns = length("turns", random_.pick({0, 1, 2, 3, 4, 6, 9}), 1);
    std::vector<Stream> streams;
    for (std::int64_t n = random_.one_in(3) ? 2 : 1; n > 0; --n) {
        Stream s = stream(engine, stages, turns);
        if (!s.tile.shape.empty()) streams.push_back(std::move(s));
    }
    if (streams.empty()) return;
    const std::vector<Sum> sums = sums_of(streams);
    auto issue = [&](Ref i, Ref slot) {
        for (const Stream& s : streams) detail::copy_async(slot_of(s.tile, slot), s.at(i), s.per_thread, here());
    };
    auto body = [&](Ref, Ref slot) {
        inside_scope([&] {
            for (std::size_t s = 0; s < streams.size(); ++s) add_up(sums[s], streams[s], slot);
            if (random_.one_in(2)) steps(random_.between(1, 3), depth + 1);
        });
    };
    using Function = detail::FunctionRef<Ref, Ref>;
    detail::pipelined(turns.node, stages, engine, Function(issue), Function(body), here());
    read_sums(sums, streams, turns);
}

}  // namespace tessera::test
