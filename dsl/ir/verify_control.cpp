#include "dsl/ir/diagnosis.hpp"
#include "dsl/ir/each_warp.hpp"
#include "dsl/ir/uniform.hpp"
#include "dsl/ir/walk.hpp"

// Who comes where together: the threads of a block to its barriers, the lanes of a warp to what they hand each other.

namespace tessera::ir::detail {

namespace {

/// Barriers need every thread of the block and shuffles every thread of the warp; they may stand at the top level and
/// in loops whose turns are equal for these.
class ControlVerifier {
public:
    explicit ControlVerifier(const Program& program)
        : block_(program, Reach::block), warp_(program, Reach::warp), at_{program} {}

    void run() { body(at_.program.body, {true, true, false}); }

private:
    struct Together {
        bool block, warp;  // whether all of its threads come here together
        bool each_warp;    // each warp runs by itself, and barriers are its own
    };

    void body(const Body& statements, const Together& here) {
        const auto [block, warp, each_warp] = here;
        for (const Statement& s : statements) {
            at_.statement = &s;
            const auto* loop = s.as<For>();
            const auto* commit = s.as<CommitCopies>();
            const bool by_warp = s.as<MmaTile>() || s.as<Arrive>() || (commit && commit->mbarriers >= 0) ||
                                 (s.as<Barrier>() && each_warp);
            const bool by_block =
                (s.as<Barrier>() && !each_warp) || s.as<WarpgroupMma>() || s.as<MmaFence>() || s.as<MmaWait>();
            at_.require((block || !by_block) && (warp || !by_warp), "uniform-control", nullptr,
                        "a barrier, an arrival or a product stands in a loop whose bounds differ between threads");
            const bool computes = s.as<Let>() || s.as<Set>();  // others may be switched off in some lanes
            for_each_ref(s, [&](Ref ref) {
                if (!warp) no_shuffle(ref);
                all_lanes_come(ref, !computes);
            });
            if (!loop) continue;
            const bool all = block_.uniform_loop(loop->loop), together = warp_.uniform_loop(loop->loop);
            at_.require(!loop->warp || together, "uniform-control", nullptr,
                        "a condition by warps differs between the threads of a warp");
            if (loop->each_warp) {
                at_.require(block && together && !each_warp && block_.uniform(loop->end) &&
                                block_.uniform(loop->begin) == (at_.program.threads == threads_of_warp),
                            "uniform-control", nullptr,
                            "the turns that warps share out begin at the warp's number and end alike for all");
                body(loop->body, {false, true, true});
                continue;
            }
            body(loop->body, {block && all && !loop->warp, warp && together, each_warp});
        }
    }
    void no_shuffle(Ref root) {
        NodeSet met;
        for_each_node(root, met, [&](Ref n) {
            at_.require(!crosses_lanes(n), "uniform-control", n,
                        "a shuffle stands in a loop whose bounds differ between threads");
        });
    }

    /// What a lane decides for itself (select, `and`, `or` of truths) must not keep it from a shuffle.
    void all_lanes_come(Ref n, bool some_leave_it_out) {
        if (!(some_leave_it_out ? left_out_ : met_).add(n)) return;
        at_.require(!some_leave_it_out || !crosses_lanes(n), "uniform-control", n,
                    "a shuffle is an operand that lanes leave out where another decides; give it a name before");
        for_each_operand(
            *n, [&](Ref operand) { all_lanes_come(operand, some_leave_it_out || may_be_left_out(n, operand)); });
    }

    Uniformity block_, warp_;
    Diagnosis at_;
    NodeSet met_, left_out_;
};

}  // namespace

void verify_control(const Program& program) { ControlVerifier(program).run(); }

}  // namespace tessera::ir::detail
