#include "tests/support/programs/device_launch.hpp"

#include <algorithm>
#include <exception>

#include "dsl/ir/program.hpp"
#include "dsl/lower/lower.hpp"
#include "tests/support/programs/evaluator.hpp"
#include "tests/support/programs/launch.hpp"
#include "tests/support/programs/run_on_device.hpp"

namespace tessera::test {

std::string check_on_device(const Device& device, std::uint64_t seed) {
    const ProgramCase c = random_program(seed);
    const Buffers expected(c), got(c);
    const std::string report = report_of(c, evaluate(c.program.ir(), expected.bases(), c.scalars));
    try {
        const auto lowered = std::make_shared<const ir::Program>(lower::lower(c.program.ir(), device.target()));
        std::vector<std::vector<std::uint8_t>> tensors = c.tensors;
        const std::string said = run_on_device(device, lowered, tensors, c.scalars);
        if (said != report) return "said \"" + said + "\", the evaluator reports \"" + report + '"';
        for (std::size_t i = 0; i < tensors.size(); ++i)
            std::copy(tensors[i].begin(), tensors[i].end(), static_cast<std::uint8_t*>(got.bases()[i]));
    } catch (const std::exception& error) {
        return error.what();
    }
    return first_difference(c, expected.bases(), got.bases());
}

}  // namespace tessera::test
