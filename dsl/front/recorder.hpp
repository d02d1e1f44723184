#pragma once

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

    ir::Program& program() { return *program_; }
    ir::Program* release();

    Ref make(Element type, const Shape& shape, const Place& place, ir::Op op);
    void append(const Place& place, ir::StatementOp op);
    /// Makes a node and binds it on this line.
    Ref bind(Element type, const Shape& shape, const Place& place, ir::Op op);
    /// UsageError if the value was made in a scope that has closed, or belongs to another recording.
    void require_open(Ref value, const Place& place) const;
    /// Names are C identifiers and stand once in a program.
    void require_new_name(const std::string& name, const char* what, const Place& place);

    Ref open_serial(Ref begin, Ref end, Ref step, const Place& place);
    void close_scope();

    bool grid_set = false;

private:
    struct Scope {
        int id;
        ir::Body* body;
    };
    ir::Program* program_;
    Recorder* outer_;
    std::vector<Scope> open_;
    std::vector<int> scope_of_;  // by node id
    std::vector<Ref> made_;      // by node id
    std::vector<std::string> names_;
    int scopes_ = 1;
};

/// "[4, 1024]"
std::string text_of(const Shape& shape);

}  // namespace tessera::detail
