#include "dsl/lower/waits.hpp"

#include <algorithm>

#include "dsl/ir/effects.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::lower {

namespace {

/// Threads meet here, or wait for what others do: others may then write to what the products read.
bool meets_others(const ir::Statement& s) {
    if (s.as<ir::Barrier>() || s.as<ir::GridSync>() || s.as<ir::ProxyFence>() || s.as<ir::WaitCopies>() ||
        s.as<ir::CommitCopies>() || s.as<ir::InitMbarriers>() || s.as<ir::MmaFence>() || s.as<ir::WarpgroupMma>() ||
        s.as<ir::MmaWait>() || s.as<ir::Arrive>() || s.as<ir::KernelAheadWait>())
        return true;
    const auto* loop = s.as<ir::For>();
    return loop && std::any_of(loop->body.begin(), loop->body.end(), meets_others);
}

bool may_run_before(const ir::MmaWait& wait, const ir::Statement& s) {
    if (meets_others(s)) return false;
    ir::Effects touched = ir::writes_of(s);
    if (touched.touches_space(ir::Space::shared)) return false;
    touched.add(ir::reads_of(s));
    return std::none_of(wait.arrays.begin(), wait.arrays.end(), [&](int array) {
        return std::binary_search(touched.arrays.begin(), touched.arrays.end(), array);
    });
}

void delay(ir::Body& body) {
    for (std::size_t i = body.size(); i-- > 0;) {
        if (auto* loop = body[i].as<ir::For>()) delay(loop->body);
        if (!body[i].as<ir::MmaWait>()) continue;
        std::size_t to = i;
        while (to + 1 < body.size() && may_run_before(*body[i].as<ir::MmaWait>(), body[to + 1])) ++to;
        std::rotate(body.begin() + static_cast<std::ptrdiff_t>(i), body.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    body.begin() + static_cast<std::ptrdiff_t>(to) + 1);
    }
}

}  // namespace

void delay_product_waits(ir::Program& program) { delay(program.body); }

}  // namespace tessera::lower
