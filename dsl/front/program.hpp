#pragma once

namespace tessera {

namespace ir {
struct Program;
}

/// A recorded kernel: what a recording function returns. Owns its tile program; movable.
class Program {
public:
    explicit Program(ir::Program* owned) : program_(owned) {}
    ~Program();
    Program(Program&& other) noexcept : program_(other.program_) { other.program_ = nullptr; }
    Program& operator=(Program&& other) noexcept {
        ir::Program* mine = program_;
        program_ = other.program_;
        other.program_ = mine;
        return *this;
    }

    const ir::Program& ir() const { return *program_; }

private:
    ir::Program* program_;
};

}  // namespace tessera
