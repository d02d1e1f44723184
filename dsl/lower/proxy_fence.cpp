#include "dsl/lower/proxy_fence.hpp"

#include <set>

#include "dsl/ir/walk.hpp"

namespace tessera::lower {

namespace {

class Pass {
public:
    explicit Pass(ir::Program& program) : program_(program) {
        ir::for_each_statement(program.body, [&](const ir::Statement& s) {
            if (const auto* copy = s.as<ir::CopyVector>(); copy && copy->mbarriers >= 0)
                tiles_.insert(copy->to.memory), tensors_.insert(copy->from.memory);
            if (const auto* box = s.as<ir::CopyBox>()) tiles_.insert(box->tile), tensors_.insert(box->tensor);
            if (const auto* product = s.as<ir::WarpgroupMma>()) tiles_.insert({product->a_tile, product->b_tile});
        });
        ir::for_each_statement(program.body, [&](const ir::Statement& s) {
            const auto* copy = s.as<ir::CopyVector>();
            by_vectors_ = by_vectors_ || (copy && copy->mbarriers < 0 && tiles_.count(copy->to.memory) > 0);
        });
    }

    void run() {
        if (!tiles_.empty()) body(program_.body, false);
    }

private:
    /// What a thread has copied by vectors is there to be fenced after its wait, not before.
    bool stores(const ir::Statement& s) const {
        const auto* store = s.as<ir::StoreVector>();
        const auto* sum = s.as<ir::AtomicAdd>();
        if (const auto* wait = s.as<ir::WaitCopies>()) return wait->mbarriers < 0 && by_vectors_;
        const ir::Access* to = store ? &store->access : sum ? &sum->access : nullptr;
        return to && (to->space == ir::Space::shared ? tiles_ : tensors_).count(to->memory) > 0;
    }
    static bool hands_on(const ir::Statement& s) {
        const auto* copy = s.as<ir::CopyVector>();
        return s.as<ir::Barrier>() || s.as<ir::GridSync>() || s.as<ir::Arrive>() || s.as<ir::CopyBox>() ||
               (copy && copy->mbarriers >= 0);
    }

    /// What body() gives, without a change.
    bool ends_open(const ir::Body& statements, bool open) const {
        for (const ir::Statement& s : statements) {
            open = open && !hands_on(s);
            if (const auto* loop = s.as<ir::For>()) open = (ends_open(loop->body, open) && loop->role < 0) || open;
            open = open || stores(s);
        }
        return open;
    }

    /// `open`: stores may stand before that no fence follows. Gives the same for the end of the body.
    bool body(ir::Body& statements, bool open) {
        ir::Body fenced;
        for (ir::Statement& s : statements) {
            if (open && hands_on(s)) {
                fenced.push_back({s.place, ir::ProxyFence{}});
                open = false;
            }
            if (auto* loop = s.as<ir::For>())  // a turn follows one before it, or nothing does
                open = (body(loop->body, open || ends_open(loop->body, false)) && loop->role < 0) || open;
            open = open || stores(s);
            fenced.push_back(std::move(s));
        }
        statements = std::move(fenced);
        return open;
    }

    ir::Program& program_;
    std::set<int> tiles_, tensors_;  // that others than threads reach
    bool by_vectors_ = false;        // threads copy to one of these
};

}  // namespace

void fence_other_paths(ir::Program& program) { Pass(program).run(); }

}  // namespace tessera::lower
