#pragma once

#include <array>
#include <vector>

#include "dsl/host/code.hpp"
#include "dsl/host/numbering.hpp"
#include "dsl/host/words.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::host {

/// The values of a scalar (count 1) or of the elements of a packed word, lowest first.
struct Lanes {
    static constexpr int most = 8;
    std::array<int, most> value{};
    int count = 0;

    int operator[](int lane) const { return value[static_cast<std::size_t>(count == 1 ? 0 : lane)]; }
    void push_back(int v);
};

/// Turns expressions into numbered operations, one for each element of a packed word.
class Expressions {
public:
    Expressions(const ir::Program& program, Numbering& numbering, const Words& words, Code& code);

    /// Forgets which nodes were evaluated: to be called between statements, since a node's meaning depends on its
    /// place.
    void new_statement() { ++stamp_; }

    /// Valid until the next call.
    const Lanes& operator()(ir::Ref ref);
    int scalar(ir::Ref ref);
    /// The value of an integer expression as i64.
    int integer(ir::Ref ref);
    /// An index that is known here. Errors: InternalError if it depends on anything but constants and unrolled
    /// counters.
    std::size_t known_index(ir::Ref ref);

    /// Words `index` … of an array: emits the check that they have been written.
    Lanes read_words(int array, std::size_t index, const Place& place);

    void bind_local(int local, const Lanes& lanes) { locals_[static_cast<std::size_t>(local)] = lanes; }
    void set_counter(int loop, int value) { counters_[static_cast<std::size_t>(loop)] = value; }

private:
    struct Known {
        unsigned stamp = 0;
        ir::Ref node = nullptr;
        Lanes lanes;
    };

    Lanes of(const ir::Node& n, const ir::Constant& op);
    Lanes of(const ir::Node& n, const ir::Parameter& op);
    Lanes of(const ir::Node& n, const ir::LoopIndex& op);
    Lanes of(const ir::Node& n, const ir::Unary& op);
    Lanes of(const ir::Node& n, const ir::Binary& op);
    Lanes of(const ir::Node& n, const ir::Fma& op);
    Lanes of(const ir::Node& n, const ir::Lookup& op);
    Lanes of(const ir::Node& n, const ir::Select& op);
    Lanes of(const ir::Node& n, const ir::Cast& op);
    Lanes of(const ir::Node& n, const ir::Bitcast& op);
    Lanes of(const ir::Node& n, const ir::ThreadIndex& op);
    Lanes of(const ir::Node& n, const ir::LinearBlock& op);
    Lanes of(const ir::Node& n, const ir::Local& op);
    Lanes of(const ir::Node& n, const ir::Register& op);
    Lanes of(const ir::Node& n, const ir::Lane& op);
    Lanes of(const ir::Node& n, const ir::Pack& op);
    Lanes of(const ir::Node& n, const ir::Shuffle& op);
    Lanes of(const ir::Node& n, const ir::WarpReduce& op);
    Lanes of(const ir::Node& n, const ir::Match& op);
    template <class Recorded>
    Lanes of(const ir::Node& n, const Recorded& op);

    int cast(int value, Element from, Element to, const ir::Node& n);
    void check_bounds(int wrong, int a, int b, const Bound& bound);
    int joined(const Lanes& lanes, Element type, bool wide);

    const ir::Program& program_;
    Numbering& numbering_;
    const Words& words_;
    Code& code_;
    std::vector<Known> known_;  // by node id
    std::vector<Lanes> locals_;
    std::vector<int> counters_;
    unsigned stamp_ = 1;
};

}  // namespace tessera::host
