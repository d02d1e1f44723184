#include <utility>

#include "tests/support/programs/steps.hpp"
#include "tests/support/programs/writer.hpp"

// What the warps of a block do by themselves.

namespace tessera::test {

/// Warps by themselves: each turn loads a tile of its own, goes on as often as a number of its own says, and stores
/// what it has.
void Writer::each_warp() {
    constexpr std::int64_t most = 9;
    const Length turns = length("items", random_.between(0, most), 1);
    const int counts = tensor("counts", i32, ir::Role::input, {{index(most)}}, most);
    const Element type = random_.pick({f32, bf16, i32, u32, i16});
    ViewSpec view = tile_of(matrix("z", type, ir::Role::input));
    Pool block = std::exchange(pool_, Pool());
    const int threads = std::exchange(threads_, 32);
    alone_ = true;
    const Ref i = detail::open_each_warp(turns.node, here());
    view.offset[1] = times(i, tile_columns_);
    pool_.add(loaded(view, type, tile_shape()));
    steps(random_.between(1, 5), 2);
    const Item init =
        clamped(*pool_.find(random_, [](const Item& v) { return has_arithmetic(v.type); }), variable_limit);
    const int variable = detail::variable(init.node, here());
    ViewSpec count;
    count.memory = counts;
    count.rank = 1;
    count.offset[0] = i, count.extent[0] = 1, count.picked[0] = true;
    const Ref few = detail::binary(ir::BinaryOp::bit_and, detail::load(count, nullptr, {}, here()),
                                   detail::constant(i32, std::int64_t{3}, here()), here());
    detail::open_serial(index(0), detail::cast(i64, few, here()), index(1), here());
    const Item now{detail::variable_read(variable, here()), init.type, init.shape,
                   is_integer(init.type) ? largest(init.type) + 1 : variable_limit, init.whole};
    pool_.add(now);
    steps(random_.between(1, 4), 2);
    const Item* next = pool_.find(random_, [&](const Item& v) {
        return v.type == init.type && v.shape == init.shape && (v.whole || !init.whole) && v.node != now.node;
    });
    if (next != nullptr) detail::assign(variable, clamped(*next, variable_limit).node, here());
    detail::close_scope();
    store_each({detail::variable_read(variable, here()), now.type, now.shape, now.bound, now.whole}, i, most);
    detail::close_scope();
    alone_ = false;
    threads_ = threads;
    pool_ = std::move(block);
}

}  // namespace tessera::test
