#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dsl/host/code.hpp"

namespace tessera::host {

/// A value before registers are allocated. All but the homes of loop-carried words are written once.
struct Virtual {
    bool wide;     // 64 bits
    bool uniform;  // one value for the block
    int level;     // where it is computed: 0 before all blocks, 1 in the block, 1 + d in a loop of depth d
    std::optional<std::uint64_t> constant;
};

/// An instruction over virtual registers.
struct Draft {
    Kind kind;
    bool uniform = false;
    LaneFunction fn = nullptr;
    std::uint32_t info = 0;
    std::vector<int> outs, ins;
};

/// Hands out values so that equal computations share one: constants fold, an operation that was met before is reused,
/// and each operation is placed at the outermost level that knows its operands (so what does not change in a loop, or
/// from block to block, is computed once).
class Numbering {
public:
    Numbering();

    int constant(std::uint64_t bits, bool wide);
    int scalar(int index, bool wide);
    int thread_index();
    int block_index();

    enum class Last : std::uint8_t { any, uniform };  // uniform: the last operand is read as one value for all threads

    /// A pure operation. Uniform operands of a per-thread operation are broadcast.
    int operate(LaneFunction fn, std::initializer_list<int> ins, bool wide, Last last = Last::any);
    /// The value in a register of its own for every thread.
    int per_thread(int value);
    /// A new register, written by instructions that the caller emits here.
    int fresh(bool wide, bool uniform);
    /// A register that is written before the loop to be opened next and again inside it.
    int home(bool wide, bool uniform);
    /// Writes `value` into a register made by fresh().
    void copy(int into, int value);
    /// Appends an instruction at the current level; it stays there.
    void emit(Draft draft) { buffers_.back().push_back(std::move(draft)); }

    void open_loop();
    /// Puts the loop, between enter and next, behind what its parent holds. `carried` values live on in the parent.
    void close_loop(Draft enter, Draft next, const std::vector<int>& carried);

    /// What a role does, and nobody else: it stands by itself, behind all that the block does.
    void open_role() { open_loop(); }
    void close_role();

    const Virtual& at(int value) const { return values_[static_cast<std::size_t>(value)]; }
    const std::vector<Virtual>& values() const { return values_; }
    int level() const { return static_cast<int>(buffers_.size()) - 1; }

    /// Once all loops are closed: what runs before all blocks, and what runs for each.
    const std::vector<Draft>& launch_drafts() const { return buffers_[0]; }
    const std::vector<Draft>& block_drafts() const { return buffers_[1]; }
    const std::vector<std::vector<Draft>>& role_drafts() const { return roles_; }

    struct NamedValue {
        int value;
        int index;
    };
    const std::vector<NamedValue>& scalars() const { return scalars_; }
    int used_thread_index() const { return thread_index_; }  // −1: not used
    int used_block_index() const { return block_index_; }

private:
    struct Key {
        LaneFunction fn;
        std::array<int, 3> ins;
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };

    int add(Virtual value);
    std::optional<std::uint64_t> folded(LaneFunction fn, const std::array<int, 3>& ins, std::size_t count,
                                        bool wide) const;

    std::vector<Virtual> values_;
    std::vector<std::vector<Draft>> buffers_;                      // by level
    std::vector<std::vector<Draft>> roles_;                        // closed
    std::vector<std::unordered_map<Key, int, KeyHash>> computed_;  // by level
    std::unordered_map<std::uint64_t, int> narrow_constants_, wide_constants_;
    std::vector<NamedValue> scalars_;
    int thread_index_ = -1, block_index_ = -1;
};

}  // namespace tessera::host
