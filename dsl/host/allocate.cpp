#include <algorithm>
#include <limits>

#include "dsl/host/assemble.hpp"

namespace tessera::host {

namespace {

constexpr int never = std::numeric_limits<int>::max();

/// Whether a body begins, or ends, at such an instruction.
bool opens(Kind kind) { return kind == Kind::loop_enter || kind == Kind::warp_enter; }
bool closes(Kind kind) { return kind == Kind::loop_next || kind == Kind::warp_leave; }

/// All instructions in their final order: before the blocks, finish, the block's, finish, those of each role, finish.
struct Listing {
    std::vector<Draft> drafts;
    int block_entry;
    std::vector<int> role_entries;
};

Listing listing_of(const Numbering& numbering) {
    const Draft finish{Kind::finish, true, nullptr, 0, {}, {}};
    Listing list{numbering.launch_drafts(), 0, {}};
    list.drafts.push_back(finish);
    list.block_entry = static_cast<int>(list.drafts.size());
    list.drafts.insert(list.drafts.end(), numbering.block_drafts().begin(), numbering.block_drafts().end());
    list.drafts.push_back(finish);
    for (const std::vector<Draft>& role : numbering.role_drafts()) {
        list.role_entries.push_back(static_cast<int>(list.drafts.size()));
        list.drafts.insert(list.drafts.end(), role.begin(), role.end());
        list.drafts.push_back(finish);
    }
    return list;
}

/// From where to where each value is held: the positions of its first and last mention.
struct Lives {
    std::vector<int> first, last;

    Lives(const Numbering& numbering, const Listing& list)
        : first(numbering.values().size(), never), last(numbering.values().size(), -1) {
        for (int at = 0; at < static_cast<int>(list.drafts.size()); ++at) {
            for (int v : list.drafts[static_cast<std::size_t>(at)].ins) mention(v, at);
            for (int v : list.drafts[static_cast<std::size_t>(at)].outs) mention(v, at);
        }
        const auto given = [&](int v) {  // written by the worker, before the first instruction
            if (v >= 0 && last[static_cast<std::size_t>(v)] >= 0) first[static_cast<std::size_t>(v)] = -1;
        };
        for (std::size_t v = 0; v < first.size(); ++v)
            if (numbering.values()[v].constant) given(static_cast<int>(v));
        for (const Numbering::NamedValue& s : numbering.scalars()) given(s.value);
        given(numbering.used_thread_index());
        given(numbering.used_block_index());
        extend_over_loops(list);
    }

private:
    void mention(int v, int at) {
        first[static_cast<std::size_t>(v)] = std::min(first[static_cast<std::size_t>(v)], at);
        last[static_cast<std::size_t>(v)] = std::max(last[static_cast<std::size_t>(v)], at);
    }

    /// What comes from before a loop and is read in it must last for all its turns; the blocks are such a loop too.
    void extend_over_loops(const Listing& list) {
        std::vector<int> open;
        for (int at = 0; at < static_cast<int>(list.drafts.size()); ++at) {
            const Kind kind = list.drafts[static_cast<std::size_t>(at)].kind;
            if (opens(kind)) open.push_back(at);
            if (!closes(kind)) continue;
            extend(open.back(), at);
            open.pop_back();
        }
        extend(list.block_entry, static_cast<int>(list.drafts.size()) - 1);
    }

    void extend(int begin, int end) {
        for (std::size_t v = 0; v < first.size(); ++v)
            if (first[v] < begin && last[v] >= begin) last[v] = std::max(last[v], end);
    }
};

/// Bytes of the register file by size class; what was freed last is taken first, since it is in the cache.
class File {
public:
    explicit File(int threads) : threads_((static_cast<std::uint32_t>(threads) + 15) / 16 * 16) {}

    Operand take(const Virtual& value) {
        const std::uint32_t step = value.uniform ? 0 : (value.wide ? 8 : 4);
        auto& free = free_[value.uniform ? 0 : step / 4];
        if (!free.empty()) {
            const std::uint32_t offset = free.back();
            free.pop_back();
            return {offset, step};
        }
        const std::uint32_t bytes = value.uniform ? 8 : threads_ * step;
        const std::uint32_t offset =
            (end_ + (value.uniform ? 7 : 63)) / (value.uniform ? 8 : 64) * (value.uniform ? 8 : 64);
        end_ = offset + bytes;
        return {offset, step};
    }
    void give_back(Operand o) { free_[o.step / 4].push_back(o.offset); }
    std::size_t bytes() const { return end_; }

private:
    std::uint32_t threads_;
    std::uint32_t end_ = 0;
    std::vector<std::uint32_t> free_[3];  // uniform, 4 and 8 bytes a thread
};

class Placement {
public:
    Placement(const Numbering& numbering, const Listing& list, int threads, Code& code)
        : numbering_(numbering),
          list_(list),
          lives_(numbering, list),
          file_(threads),
          places_(numbering.values().size()),
          code_(code) {}

    void run() {
        std::vector<std::vector<int>> ends(list_.drafts.size());
        for (std::size_t v = 0; v < places_.size(); ++v) {
            if (lives_.last[v] < 0) continue;
            ends[static_cast<std::size_t>(lives_.last[v])].push_back(static_cast<int>(v));
            if (lives_.first[v] < 0) places_[v] = file_.take(numbering_.values()[v]);
        }
        for (std::size_t at = 0; at < list_.drafts.size(); ++at) {
            for (int v : list_.drafts[at].outs)
                if (lives_.first[static_cast<std::size_t>(v)] == static_cast<int>(at))
                    places_[static_cast<std::size_t>(v)] = file_.take(numbering_.at(v));
            write(list_.drafts[at]);
            for (int v : ends[at])
                if (may_be_taken(v, static_cast<int>(at))) file_.give_back(places_[static_cast<std::size_t>(v)]);
        }
        for (int entry : list_.role_entries) code_.role_entries.push_back(static_cast<std::uint32_t>(entry));
        code_.block_entry = static_cast<std::uint32_t>(list_.block_entry);
        code_.file_bytes = file_.bytes();
        name_given_values();
    }

private:
    /// Roles take turns: what is one value for all threads must last. What threads have of their own is theirs.
    bool may_be_taken(int value, int at) const {
        const bool in_role = !list_.role_entries.empty() && at >= list_.role_entries.front();
        return !in_role || !numbering_.at(value).uniform;
    }

    void write(const Draft& draft) {
        Instruction i{draft.kind,
                      draft.uniform,
                      static_cast<std::uint8_t>(draft.outs.size()),
                      static_cast<std::uint8_t>(draft.ins.size()),
                      static_cast<std::uint32_t>(code_.operands.size()),
                      draft.info,
                      draft.fn};
        for (int v : draft.outs) code_.operands.push_back(places_[static_cast<std::size_t>(v)]);
        for (int v : draft.ins) code_.operands.push_back(places_[static_cast<std::size_t>(v)]);
        const auto here = static_cast<std::uint32_t>(code_.instructions.size());
        if (opens(draft.kind)) open_.push_back(here);
        if (closes(draft.kind)) {
            i.info = open_.back() + 1;
            code_.instructions[open_.back()].info = here + 1;
            open_.pop_back();
        }
        code_.instructions.push_back(i);
    }

    void name_given_values() {
        const auto used = [&](int v) { return v >= 0 && lives_.last[static_cast<std::size_t>(v)] >= 0; };
        for (std::size_t v = 0; v < places_.size(); ++v) {
            const Virtual& value = numbering_.values()[v];
            if (value.constant && used(static_cast<int>(v)))
                code_.constants.push_back({places_[v], value.wide, *value.constant});
        }
        for (const Numbering::NamedValue& s : numbering_.scalars())
            if (used(s.value))
                code_.scalars.push_back(
                    {places_[static_cast<std::size_t>(s.value)], numbering_.at(s.value).wide, s.index});
        code_.has_thread_index = used(numbering_.used_thread_index());
        if (code_.has_thread_index)
            code_.thread_index = places_[static_cast<std::size_t>(numbering_.used_thread_index())];
        code_.has_block_index = used(numbering_.used_block_index());
        if (code_.has_block_index) code_.block_index = places_[static_cast<std::size_t>(numbering_.used_block_index())];
    }

    const Numbering& numbering_;
    const Listing& list_;
    Lives lives_;
    File file_;
    std::vector<Operand> places_;
    std::vector<std::uint32_t> open_;
    Code& code_;
};

}  // namespace

void allocate(const Numbering& numbering, int threads, Code& code) {
    const Listing list = listing_of(numbering);
    Placement(numbering, list, threads, code).run();
}

}  // namespace tessera::host
