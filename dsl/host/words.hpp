#pragma once

#include <vector>

#include "dsl/host/numbering.hpp"
#include "dsl/ir/program.hpp"

namespace tessera::host {

/// Which value each element of each register array holds at the point of the program that is being assembled. Setting a
/// word only renames it; where a loop carries words from turn to turn, they get registers of their own.
class Words {
public:
    struct Element {
        int value;
        int defined;  // uniform u32: whether it has been written; mostly a constant
    };
    /// The registers that carry a word from turn to turn of a serial loop.
    struct Home {
        int value;
        int defined;
        bool carries_defined;  // `defined` is a register of the loop's own, not the constant 1
    };
    struct Carried {
        int array;
        std::size_t element;
        Home home;
    };

    Words(const ir::Program& program, Numbering& numbering);

    void declare(int array);
    void set(int array, std::size_t element, int value);
    const Element& get(int array, std::size_t element) const;

    /// Before a loop is opened: gives homes to all words of the arrays that its body writes and its surroundings
    /// declare.
    std::vector<Carried> enter_loop(const ir::Body& body);
    /// At the end of the body: brings the words into their homes.
    void end_of_turn(const std::vector<Carried>& carried);
    /// After the loop is closed: the homes hold the words; what the body declared is gone.
    void leave_loop(const ir::Body& body, const std::vector<Carried>& carried);

private:
    Element& at(int array, std::size_t element);

    const ir::Program& program_;
    Numbering& numbering_;
    std::vector<std::vector<Element>> arrays_;
};

/// The registers of all homes, for Numbering::close_loop.
std::vector<int> registers_of(const std::vector<Words::Carried>& carried);

}  // namespace tessera::host
