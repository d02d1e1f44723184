#include "tests/support/programs/generator.hpp"

#include "tests/support/programs/steps.hpp"
#include "tests/support/programs/writer.hpp"

// What stands in a random program, and its control flow.

namespace tessera::test {

void Writer::write(Kernel& kernel) {
    const bool roles = random_.one_in(8);
    threads_ = random_.pick({32, 64, 128, 128, 256});
    if (!roles) kernel.threads(threads_);
    tile_rows_ = random_.pick<std::int64_t>({1, 2, 4, 8, 16, 3, 5});
    tile_columns_ = random_.pick<std::int64_t>({8, 16, 32, 64, 128, 256, 1, 7, 33, 96, 160});
    while (tile_rows_ * tile_columns_ > 1024) tile_rows_ = (tile_rows_ + 1) / 2;
    rows_ = length("rows", random_.between(1, 3 * tile_rows_ + 1), 1);
    columns_ =
        length("columns", random_.between(1, 3 * tile_columns_ + 2), random_.pick<std::int64_t>({1, 1, 4, 8, 16}));
    const Ref extents[] = {tiles(rows_.node, tile_rows_), tiles(columns_.node, tile_columns_)};
    detail::grid(extents, 2, block_, here());
    roles ? write_roles() : write_tiles();
}

void Writer::write_tiles() {
    for (std::int64_t n = random_.between(1, 3); n > 0; --n) load_tile();
    if (random_.one_in(3)) load_line();
    if (random_.one_in(6)) pipeline(0);
    if (random_.one_in(6)) product(0);
    if (random_.one_in(6)) product_in_place();
    if (random_.one_in(8)) product_pipeline();
    steps(random_.between(4, 14), 0);
    if (random_.one_in(4)) {
        for (std::int64_t n = random_.between(1, 2); n > 0; --n) read_from_others();
        steps(random_.between(1, 5), 0);
    }
    if (std::any_of(copied_.begin(), copied_.end(), [](const Copied& c) { return c.under_way; })) wait_for_copies();
    for (std::int64_t n = random_.between(2, 4); n > 0; --n) random_.one_in(2) ? store_tile() : store_anything();
    if (random_.one_in(4)) each_warp();
    store_anything();
}

void Writer::steps(std::int64_t count, int depth) {
    for (; count > 0; --count) {
        const std::int64_t which = random_.between(0, 20);
        const bool of_the_block = which == 9 || which == 10 || which == 13 || which == 14 || which == 16;
        if (alone_ && (of_the_block || which == 15)) {
            of_the_block ? step_arithmetic(random_, pool_) : gather();
            continue;
        }
        switch (which) {
            case 0:
            case 1: step_cast(random_, pool_); break;
            case 2: step_select(random_, pool_); break;
            case 3:
            case 4: step_reduce(random_, pool_); break;
            case 5: step_reshape(random_, pool_); break;
            case 6: step_permute(random_, pool_); break;
            case 7:
                if (threads_ == 32 && random_.one_in(2))
                    step_top_k(random_, pool_);
                else
                    step_broadcast(random_, pool_);
                break;
            case 8: random_.one_in(2) ? step_coordinate(random_, pool_) : step_bitcast(random_, pool_); break;
            case 9: random_.one_in(3) ? reread_shared() : through_shared(); break;
            case 10: through_shared(); break;
            case 11:
                if (depth >= 2)
                    step_arithmetic(random_, pool_);
                else
                    random_.one_in(3) ? (random_.one_in(4) ? by_warps() : condition(depth)) : loop(depth);
                break;
            case 12: step_lookup(random_, pool_); break;
            case 13: in_role_ ? through_shared() : random_.one_in(3) ? pipeline(depth) : start_copy(); break;
            case 14: in_role_ ? reread_shared() : wait_for_copies(); break;
            case 15: random_.one_in(2) ? gather() : gather_shared(); break;
            case 16: random_.one_in(2) ? scatter() : scatter_shared(); break;
            default: step_arithmetic(random_, pool_); break;
        }
    }
}

/// Writes the block's tile of a matrix, waits for all blocks and reads a piece that others have written to.
void Writer::read_from_others() {
    const Item* found = pool_.find(random_, [&](const Item& i) { return i.shape == tile_shape(); });
    if (found == nullptr) return;
    Item item = *found;
    const int memory = matrix("met", item.type, ir::Role::inout);
    detail::store(tile_of(memory), item.node, here());
    detail::grid_sync(here());
    const ViewSpec view = tile_of(memory, random_.between(-2, 2), random_.between(-3, 3));
    if (bits_of(item.type) >= 32 && random_.one_in(2)) return copy_piece(view, item);
    item.node = detail::load(view, nullptr, {}, here());
    pool_.add(item);
}

void Writer::inside_scope(const std::function<void()>& body) {
    const std::size_t outside = pool_.size(), outside_shared = shared_.size();
    const std::vector<Copied> copied = copied_;
    body();
    for (std::size_t i = 0; i < copied_.size(); ++i)
        if (copied_[i].under_way && (i >= copied.size() || !copied[i].under_way)) {
            wait_for_copies();
            break;
        }
    pool_.shrink(outside);
    for (std::size_t t = outside_shared; t < shared_.size(); ++t) shared_[t].filled = false;
    copied_ = copied;  // nobody knows whether the scope was run, and so has waited
}

/// A serial loop that carries one variable; the turns read successive tiles of a matrix.
void Writer::loop(int depth) {
    const Item* found = pool_.find(random_, [](const Item& i) { return has_arithmetic(i.type); });
    if (found == nullptr) return;
    const Item init = clamped(*found, variable_limit);
    const int variable = detail::variable(init.node, here());
    const Length turns = length("turns", random_.between(0, 3), 1);

    const Element type = random_type();
    const int memory = matrix("y", type, ir::Role::input);

    const double limit = is_integer(init.type) ? largest(init.type) + 1 : variable_limit;
    const Ref i = detail::open_serial(index(0), turns.node, index(1), here());
    inside_scope([&] {
        const Item now{detail::variable_read(variable, here()), init.type, init.shape, limit, init.whole};
        pool_.add(now);
        ViewSpec view = tile_of(memory);
        view.offset[1] = times(i, tile_columns_);
        pool_.add(loaded(view, type, tile_shape()));
        steps(random_.between(1, 5), depth + 1);
        const Item* next = pool_.find(random_, [&](const Item& v) {
            return v.type == init.type && v.shape == init.shape && (v.whole || !init.whole) && v.node != now.node;
        });
        if (next != nullptr) detail::assign(variable, clamped(*next, variable_limit).node, here());
    });
    detail::close_scope();
    pool_.add({detail::variable_read(variable, here()), init.type, init.shape, limit, init.whole});
}

/// |v| by two ways, of which each warp takes the one that fits what it holds.
void Writer::by_warps() {
    const Item* found = pool_.find(random_, [](const Item& i) { return has_arithmetic(i.type); });
    if (found == nullptr) return;
    const Item v = clamped(*found, variable_limit);
    const int variable = detail::variable(v.node, here());
    const Ref zero = detail::constant(v.type, std::int64_t{0}, here());
    const Ref now = detail::variable_read(variable, here());  // so that the vote is about what a warp assigns
    const Ref all = detail::warp_vote(ir::ReduceOp::min, detail::binary(ir::BinaryOp::gt, now, zero, here()), here());
    detail::open_when(all, here());
    detail::assign(variable, now, here());
    detail::close_scope();
    detail::open_when(detail::unary(ir::UnaryOp::bit_not, all, here()), here());
    detail::assign(variable, detail::unary(ir::UnaryOp::abs, now, here()), here());
    detail::close_scope();
    const double bound = is_integer(v.type) ? largest(v.type) + 1 : variable_limit;
    pool_.add({detail::variable_read(variable, here()), v.type, v.shape, bound, v.whole});
}

/// One or both cases of a condition on some tile's elements or on the block's index; a variable carries what
/// changes.
void Writer::condition(int depth) {
    const Item* found = pool_.find(random_, [](const Item& i) { return has_arithmetic(i.type); });
    if (found == nullptr) return;
    const Item init = clamped(*found, variable_limit);
    const int variable = detail::variable(init.node, here());
    const double limit = is_integer(init.type) ? largest(init.type) + 1 : variable_limit;
    Ref truth = detail::binary(ir::BinaryOp::gt, block_[random_.between(0, 1)], index(0), here());
    if (random_.one_in(2)) {
        const Ref zero = detail::constant(found->type, std::int64_t{0}, here());
        const Ref mask = detail::binary(ir::BinaryOp::gt, found->node, zero, here());
        truth = detail::reduce_all(random_.pick({ir::ReduceOp::max, ir::ReduceOp::min}), mask, here());
    }
    for (int last = static_cast<int>(random_.between(0, 1)), i = 0; i <= last; ++i) {
        detail::open_when(i == 0 ? truth : detail::unary(ir::UnaryOp::bit_not, truth, here()), here());
        inside_scope([&] {
            pool_.add({detail::variable_read(variable, here()), init.type, init.shape, limit, init.whole});
            steps(random_.between(1, 4), depth + 1);
            const Item* next = pool_.find(random_, [&](const Item& v) {
                return v.type == init.type && v.shape == init.shape && (v.whole || !init.whole);
            });
            if (next != nullptr) detail::assign(variable, clamped(*next, variable_limit).node, here());
        });
        detail::close_scope();
    }
    pool_.add({detail::variable_read(variable, here()), init.type, init.shape, limit, init.whole});
}

ProgramCase random_program(std::uint64_t seed) {
    std::vector<std::uint64_t> scalars;
    std::vector<std::vector<std::uint8_t>> tensors;
    Writer writer(seed, scalars, tensors);
    const std::string name = "random" + std::to_string(seed);
    Program program = record(name.c_str(), [&](Kernel& k) { writer.write(k); });
    return {std::move(program), std::move(scalars), std::move(tensors)};
}

}  // namespace tessera::test
