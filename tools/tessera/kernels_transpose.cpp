#include "kernels/transpose.hpp"
#include "tools/tessera/device_tensor.hpp"
#include "tools/tessera/kernels.hpp"

namespace tessera::tool {

namespace {

std::optional<std::string> nothing_missing(const Arguments&) { return std::nullopt; }

std::vector<Result> run_batched(const Stream& stream, const Case& the_case) {
    const DeviceTensor x(stream, *the_case.input("x"));
    std::vector<Result> results;
    results.push_back(download(stream, "out", transpose::batched_transpose(stream, x)));
    return results;
}

Rule every_bit(const Case&, const std::string&) { return {}; }

Program batched_program(const Arguments& args, const Target&) {
    const Element in =
        input_element(args, {Element::bf16, Element::f32, Element::f16, Element::e4m3, Element::e5m2, Element::u8,
                             Element::i8, Element::i16, Element::u16, Element::i32, Element::u32});
    return transpose::batched_transpose_program(bits_of(in) / 8, args.flag("aligned", true));
}

}  // namespace

void add_transpose_kernels(std::vector<KernelEntry>& table) {
    table.push_back({"batched_transpose",
                     "transposes the last two axes of [B, M, N]: any 1-, 2- or 4-byte type",
                     {},
                     {},
                     {"x"},
                     {"out"},
                     nothing_missing,
                     run_batched,
                     every_bit,
                     batched_program});
}

}  // namespace tessera::tool
