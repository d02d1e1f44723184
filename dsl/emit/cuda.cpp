#include "dsl/emit/cuda.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/c_types.hpp"
#include "dsl/emit/signature.hpp"
#include "dsl/emit/statement.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::emit {

namespace {

/// What a block may declare without asking the driver.
constexpr std::int64_t static_shared_limit = 48 * 1024;

std::string note_of(const ir::SharedTile& tile) {
    std::string extents;
    for (const std::int64_t extent : tile.shape) extents += (extents.empty() ? "" : ", ") + std::to_string(extent);
    std::string note = fmt::format("{} [{}]", name_of(tile.type), extents);
    if (tile.swizzle.bits > 0)
        note += fmt::format(", XOR swizzle (bits {}, base {}, shift {})", tile.swizzle.bits, tile.swizzle.base,
                            tile.swizzle.shift);
    return note;
}

/// Of shared memory, in bytes: what tensor cores read there, or the copy engine swizzles, lies at multiples of 8 rows
/// of up to 128.
int alignment_of(const ir::Program& program) {
    int bytes = 128;
    for (const ir::TensorMap& map : program.maps) bytes = std::max(bytes, map.alignment());
    ir::for_each_statement(program.body, [&](const ir::Statement& s) {
        if (s.as<ir::WarpgroupMma>()) bytes = 1024;
    });
    return bytes;
}

void declare_shared(const ir::Program& program, const Names& names, Writer& writer) {
    if (program.shared.empty()) return;
    const bool fixed = dynamic_shared_bytes(program) == 0;
    writer.line(
        fmt::format("{}__shared__ __align__({}) unsigned char {}[{}];", fixed ? "" : "extern ", alignment_of(program),
                    Names::shared_memory, fixed ? std::to_string(program.shared_bytes) : ""),
        fixed ? "" : fmt::format("{} bytes, given at launch", program.shared_bytes));
    for (std::size_t i = 0; i < program.shared.size(); ++i) {
        const ir::SharedTile& tile = program.shared[i];
        require_internal(tile.byte_offset >= 0, "a shared tile without a place");
        const char* type = storage_type(tile.type);
        const std::string at = tile.byte_offset == 0 ? "" : fmt::format(" + {}", tile.byte_offset);
        writer.line(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>({2}{3});", type, names.shared[i],
                                Names::shared_memory, at),
                    note_of(tile));
    }
}

/// The copy engine's descriptions are on their way before they are needed.
void fetch_maps(const Names& names, HelperSet& helpers, Writer& writer) {
    for (const std::string& map : names.maps)
        writer.line(fmt::format("if (threadIdx.x == 0) {}({});", helpers.use("fetch_map"), map));
}

}  // namespace

std::int64_t dynamic_shared_bytes(const ir::Program& program) {
    return program.shared_bytes <= static_shared_limit ? 0 : program.shared_bytes;
}

std::string cuda_text(const ir::Program& program, const Target& target, const CudaOptions& options) {
    require_internal(program.stage == ir::Stage::lowered, "CUDA text is printed from lowered programs");
    const Names names(program);
    HelperSet helpers(target);
    Expressions expressions(program, names, helpers);
    const std::string head = headline(program, target, expressions), line = signature(program, names, expressions);

    Writer body(options.line_directives);
    body.indent_by(1);
    Statements(program, target, names, helpers, expressions, body).print(program.body);

    Writer frame(false);
    frame.indent_by(1);
    if (expressions.uses_block()) frame.line(fmt::format("const long long {} = blockIdx.x;", Names::block));
    if (expressions.uses_thread()) {
        frame.line(fmt::format("const int {} = threadIdx.x;", Names::thread));
        // NVRTC does not know it: without, a division by a power of two takes three instructions and a remainder four.
        frame.line(fmt::format("__builtin_assume({} >= 0);", Names::thread));
    }
    declare_shared(program, names, frame);
    fetch_maps(names, helpers, frame);
    const std::string helper_text = helpers.text();
    return head + "\n\n" + helper_text + line + " {\n" + frame.text() + body.text() + "}\n";
}

}  // namespace tessera::emit
