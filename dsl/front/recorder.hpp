#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsl/front/detail.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::detail {

/// Where the front end puts what a kernel writes. One is active per thread, inside record().
class Recorder {
public:
    Recorder(const char* name, const Place& place);
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// The active recorder; UsageError at `place` outside record().
    static Recorder& active(const Place& place);

    std::uint64_t id() const { return id_; }
    ir::Program& program() { return *program_; }
    ir::Program* release();

    Ref make(Element type, const Shape& shape, const Place& place, ir::Op op);
    void append(const Place& place, ir::StatementOp op);
    /// Makes a node and binds it on this line.
    Ref bind(Element type, const Shape& shape, const Place& place, ir::Op op);
    /// Makes arithmetic on the indices of the grid and of loops: written out where it is used, but for long chains.
    Ref make_index(Element type, const Place& place, ir::Op op);
    /// UsageError if the value was made in a scope that has closed, or belongs to another recording.
    void require_open(Ref value, const Place& place) const;
    /// UsageError unless the value is a number of the launch: constants and parameters alone.
    void require_launch_number(Ref value, const std::string& what, const Place& place) const;
    /// Names are C identifiers and stand once in a program. Gives the name.
    std::string require_new_name(const char* name, const char* what, const Place& place);

    void add_variable(ir::Variable variable);
    /// UsageError unless the variable was made in a scope that is still open.
    const ir::Variable& open_variable(int variable, const Place& place) const;

    Ref open_serial(Ref begin, Ref end, Ref step, const Place& place);
    Ref open_each_warp(Ref count, const Place& place);
    void open_when(Ref condition, const Place& place);
    /// A pipeline while its function starts copies: they go to one of `stages` slots.
    struct Pipeline {
        int stages;
        int mbarriers;  // that count the bytes; −1: the threads' groups
        Ref slot;
        bool tensor = false;                                         // by tensor maps
        const char* function = "the first function of k.pipelined";  // that starts them
        const char* kind = "pipeline";
    };
    /// Until it is taken away by null, copies alone may be appended, and those belong to the pipeline.
    void set_pipeline(const Pipeline* pipeline) { pipeline_ = pipeline; }
    bool issues_copies() const { return pipeline_ != nullptr; }
    void append_copy(const Place& place, ir::Copy copy);
    /// A tile of mbarriers for the stages of a pipeline or ring.
    int mbarriers(const char* what, int stages, const Place& place);
    /// Gives the tiles that the writer did not name names that he has not given either.
    void name_mbarriers();
    void close_scope() noexcept;
    bool in_loop() const { return open_.size() > 1; }

    // roles.cpp
    struct Ring {
        int stages, full, empty;
        Place place;
        int filled_by = -1;  // role
        bool open = false;   // a body that fills or uses it is being recorded
        struct State {
            int slot, parity;  // variables
        };
        std::map<int, State> states;  // by role
    };
    int role() const { return open_.back().role; }  // −1: none
    bool by_warps() const { return open_.back().by_warps; }
    bool in_each_warp() const { return open_.back().each_warp; }
    Ring::State ring_state(Ring& ring, const Place& place);
    ir::Body& open_role(int role, const Place& place);
    void close_role(ir::Body& opened);
    /// UsageError if the roles cannot work together.
    void finish_roles();

    bool grid_set = false;
    int threads_set = 0;  // by k.threads; 0: not
    std::vector<Ring> rings;

private:
    struct Scope {
        int id;
        ir::Body* body;
        int role = -1;           // that it stands in
        bool by_warps = false;   // in a condition by warps
        bool each_warp = false;  // in what each warp runs by itself
        int team = 0;            // the scope whose body the threads are given to: a role, each warp; 0: the block
    };

    bool is_open(int scope) const;
    void open(const Scope& scope);
    void open_inside(bool by_warps = false);

    std::uint64_t id_;
    std::unique_ptr<ir::Program> program_;
    Recorder* outer_;
    std::vector<Scope> open_;
    std::vector<int> scope_of_;        // by node id
    std::vector<Ref> made_;            // by node id
    std::vector<int> depth_;           // by node id: operations down to what is bound
    std::vector<int> variable_scope_;  // by variable
    std::vector<std::string> names_;
    std::vector<std::size_t> unnamed_;  // shared tiles, by index
    std::vector<int> team_of_scope_;    // by scope
    const Pipeline* pipeline_ = nullptr;
    ir::Body prologue_;  // what stands first in the role that is open
    int scopes_ = 1;
};

/// "[4, 1024]"
std::string text_of(const Shape& shape);
/// UsageError unless the extents are those of a tile: at least 1, and not beyond what 32-bit positions can name.
void require_tile(const Shape& shape, const Place& place);

}  // namespace tessera::detail
