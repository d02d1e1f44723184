#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/front/recorder.hpp"

// A pipeline as a loop: the copies of the first stages − 1 iterations are started ahead of it, and each turn waits for
// its own copies, starts those of stages − 1 turns later in the slot that the turn before has left, and runs the body.

namespace tessera::detail {

namespace {

constexpr int most_stages = 32;

class PipelineRecording {
public:
    PipelineRecording(Ref count, int stages, ir::Copies engine, const FunctionRef<Ref, Ref>& issue, const Place& place)
        : r_(Recorder::active(place)), count_(count), stages_(stages), engine_(engine), issue_(issue), place_(place) {
        if (engine == ir::Copies::vectors) return;
        if (r_.in_loop())
            throw UsageError(
                place, fmt::format("k.pipelined with .engine = Copies::{} stands in a loop or condition, where only a "
                                   "pipeline by vectors may: write one pipeline over all iterations at the top level "
                                   "of the kernel, or leave the engine out",
                                   engine == ir::Copies::bulk ? "bulk" : "tensor"));
        full_ = r_.mbarriers("full", stages, place);
        r_.append(place, ir::InitMbarriers{full_});
    }

    void run(const FunctionRef<Ref, Ref>& body) {
        for (int i = 0; i + 1 < stages_; ++i) start(number(i), number(i));
        const int slot = variable(number(0), place_);
        const int parity = full_ >= 0 ? variable(number(0), place_) : -1;
        const Ref i = r_.open_serial(number(0), count_, number(1), place_);
        const ScopeCloser closer;
        const Ref now = variable_read(slot, place_);
        wait(now, parity);
        const Ref before = select(binary(ir::BinaryOp::eq, now, number(0), place_), number(stages_ - 1),
                                  binary(ir::BinaryOp::sub, now, number(1), place_), place_);
        start(binary(ir::BinaryOp::add, i, number(stages_ - 1), place_), before);
        body(i, now);
        const Ref next = binary(ir::BinaryOp::add, now, number(1), place_);
        const Ref last = binary(ir::BinaryOp::eq, next, number(stages_), place_);
        assign(slot, select(last, number(0), next, place_), place_);
        if (parity < 0) return;
        const Ref phase = variable_read(parity, place_);
        assign(parity, select(last, binary(ir::BinaryOp::bit_xor, phase, number(1), place_), phase, place_), place_);
    }

private:
    Ref number(std::int64_t n) const { return constant(i64, n, place_); }

    /// The copies of iteration i, if there is one, as a group; without copies, too, so that groups count iterations.
    void start(Ref i, Ref slot) {
        const auto *now = i->as<ir::Constant>(), *end = count_->as<ir::Constant>();
        const bool known = now && end;
        const bool inside = known && static_cast<std::int64_t>(now->bits) < static_cast<std::int64_t>(end->bits);
        if (inside) issue(i, slot);
        if (!known) {
            open_when(binary(ir::BinaryOp::lt, i, count_, place_), place_);
            const ScopeCloser closer;
            issue(i, slot);
        }
        if (full_ < 0) r_.append(place_, ir::CommitCopies{});
    }

    void issue(Ref i, Ref slot) {
        const Recorder::Pipeline pipeline{stages_, full_, slot, engine_ == ir::Copies::tensor};
        struct Issuing {  // ends also where the writer's function throws
            Recorder& r;
            ~Issuing() { r.set_pipeline(nullptr); }
        } const issuing{r_};
        r_.set_pipeline(&pipeline);
        issue_(i, slot);
        r_.set_pipeline(nullptr);
        if (full_ >= 0) r_.append(place_, ir::CommitCopies{full_, slot});
    }

    void wait(Ref slot, int parity) {
        if (full_ < 0) return r_.append(place_, ir::WaitCopies{stages_ - 2});
        r_.append(place_, ir::WaitCopies{0, full_, slot, variable_read(parity, place_)});
    }

    Recorder& r_;
    Ref count_;
    int stages_;
    ir::Copies engine_;
    FunctionRef<Ref, Ref> issue_;
    Place place_;
    int full_ = -1;
};

}  // namespace

void pipelined(Ref count, int stages, ir::Copies engine, FunctionRef<Ref, Ref> issue, FunctionRef<Ref, Ref> body,
               const Place& place) {
    if (Recorder::active(place).issues_copies())
        throw UsageError(place, "a pipeline inside the issue function of another; that function only starts copies");
    if (Recorder::active(place).role() >= 0)
        throw UsageError(place,
                         "a pipeline in a role; between roles a ring does its work: k.ring, ring.fill in one role "
                         "and ring.use in another");
    if (Recorder::active(place).in_each_warp())
        throw UsageError(place,
                         "a pipeline inside k.each_warp; whole blocks count and wait for copies: put the pipeline "
                         "around it, or load in it");
    if (stages < 2 || stages > most_stages)
        throw UsageError(place, fmt::format("a pipeline of {} stages; it has from 2, one that is read and one that is "
                                            "copied to, up to {}",
                                            stages, most_stages));
    PipelineRecording(count, stages, engine, issue, place).run(body);
}

}  // namespace tessera::detail
