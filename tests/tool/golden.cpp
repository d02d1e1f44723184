// The golden cases on the host executor, and that a single flipped bit of an output fails.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "tests/tool/support.hpp"
#include "tools/tessera/verdict.hpp"

namespace tessera::tool_test {
namespace {

using namespace tool;

struct Ran {
    const KernelEntry* kernel;
    Case the_case;
    std::vector<Result> results;
};

std::vector<std::string> golden_files() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(TESSERA_GOLDEN_FOLDER)) {
        if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
}

/// All cases whose kernel and options exist, run once.
const std::vector<Ran>& ran_cases() {
    static const std::vector<Ran> ran = [] {
        std::vector<Ran> result;
        const Stream stream = Device::host().stream();
        for (const std::string& file : golden_files()) {
            Case the_case = load_case(file);
            std::string why;
            const KernelEntry* kernel = kernel_for(the_case, why);
            if (!kernel) continue;
            std::vector<Result> results = kernel->run(stream, the_case);
            result.push_back({kernel, std::move(the_case), std::move(results)});
        }
        return result;
    }();
    return ran;
}

TEST_CASE("all golden files are there and can be read") {
    std::size_t tensors = 0;
    for (const std::string& file : golden_files()) {
        const Case the_case = load_case(file);
        tensors += the_case.inputs.size() + the_case.outputs.size();
        CHECK_FALSE(the_case.outputs.empty());
    }
    CHECK(golden_files().size() == 95);
    CHECK(tensors > 300);
}

TEST_CASE("the golden cases agree bit for bit on the host executor") {
    std::map<std::string, int> passed;
    for (const Ran& ran : ran_cases()) {
        const auto wrong = judge(*ran.kernel, ran.the_case, ran.results);
        INFO(ran.the_case.file << ": " << wrong.value_or(""));
        CHECK_FALSE(wrong);
        ++passed[ran.kernel->name];
    }
    CHECK(passed["batched_transpose"] == 3);
    CHECK(passed["per_token_cast"] == 14);
    CHECK(passed["per_token_cast_to_e5m6"] == 3);
    CHECK(passed["per_token_cast_with_sf_only"] == 1);
    CHECK(passed["per_token_cast_with_precomputed_sf"] == 1);
    CHECK(passed["per_block_cast"] == 5);
    CHECK(passed["per_block_cast_lossless"] == 3);
    CHECK(passed["cast_back"] == 2);
    CHECK(passed["per_token_cast_back"] == 4);
    CHECK(passed["cast_back_e5m6"] == 3);
    for (const char* kernel : {"fused_weight", "hash", "gate_fwd", "gate_bwd", "grad_w_reduce"})
        CHECK(passed[std::string("engram_") + kernel] == 1);
    for (const char* kernel : {"mhc_expand", "mhc_head_compute_mix", "mhc_post", "mhc_pre_apply_mix",
                               "mhc_pre_big_fuse", "mhc_pre_norm_fn", "mhc_pre_split_mixes", "mhc_sinkhorn"})
        CHECK(passed[kernel] == 1);
    CHECK(passed["swiglu_forward_and_per_token_cast"] == 5);
    CHECK(passed["swiglu_backward_and_per_token_cast"] == 2);
}

bool in_used_row(const Rule& rule, const CaseTensor& tensor, std::size_t byte) {
    return rule.rows.empty() || rule.rows[byte / (tensor.values.size() / rule.rows.size())];
}

/// Not bytes of packed scales that belong to no block, nor of rows that are unspecified.
bool counts(const Rule& rule, const CaseTensor& tensor, std::size_t byte) {
    if (!in_used_row(rule, tensor, byte)) return false;
    if (rule.packed_blocks == 0) return true;
    const std::size_t row = static_cast<std::size_t>(tensor.shape.back()) * tensor.value_bytes();
    return byte % row < static_cast<std::size_t>(rule.packed_blocks);
}

/// Bytes in which a bit is flipped: of many, about `most`. Where a tolerance holds, only the last of a value, with the
/// top of its exponent.
std::vector<std::size_t> places(const Rule& rule, const CaseTensor& tensor, std::size_t most) {
    const std::size_t width = rule.exact() ? 1 : tensor.value_bytes(), values = tensor.values.size() / width;
    const std::size_t step = values <= 2048 ? 1 : values / most;
    std::vector<std::size_t> bytes;
    for (std::size_t i = 0; i < values; i += step) bytes.push_back(i * width + width - 1);
    return bytes;
}

/// The bit: where a tolerance holds, the top one of an FP32 or BF16 exponent, which makes 2 of 0, much of little, and
/// nothing of 2 and more.
std::byte flip(const Rule& rule, std::byte otherwise) { return rule.exact() ? otherwise : std::byte{0x40}; }

/// The judgement of one output; where its limits are worth computing once, by the rule at hand.
bool fails(const Ran& ran, const Case& the_case, const std::vector<Result>& results, const std::string& output,
           const Rule& rule) {
    if (rule.limits.empty()) return judge(*ran.kernel, the_case, results).has_value();
    for (const Result& result : results)
        if (result.tensor.name == output) return difference(*the_case.output(output), result, rule).has_value();
    return true;
}

TEST_CASE("a flipped bit of an expected output fails") {
    int flipped = 0, ignored = 0;
    for (const Ran& ran : ran_cases()) {
        for (std::size_t i = 0; i < ran.the_case.outputs.size(); ++i) {
            Case changed = ran.the_case;
            CaseTensor& output = changed.outputs[i];
            const Rule rule = ran.kernel->rule(changed, output.name);
            for (const std::size_t byte : places(rule, output, 509)) {
                const std::byte bit = flip(rule, std::byte{static_cast<unsigned char>(1u << (byte % 8))});
                output.values[byte] ^= bit;
                const bool failed = fails(ran, changed, ran.results, output.name, rule);
                output.values[byte] ^= bit;
                if (failed != counts(rule, output, byte)) FAIL(ran.the_case.file << " byte " << byte);
                ++(failed ? flipped : ignored);
            }
        }
    }
    CHECK(flipped > 5000);
    CHECK(ignored > 0);  // the spare bytes of packed scales
}

TEST_CASE("a flipped bit of our output fails, in its padding too") {
    int flipped = 0, padding = 0;
    for (const Ran& ran : ran_cases()) {
        std::vector<Result> results = ran.results;
        for (Result& result : results) {
            if (!ran.the_case.output(result.tensor.name)) continue;
            const Rule rule = ran.kernel->rule(ran.the_case, result.tensor.name);
            for (const std::size_t byte : places(rule, result.tensor, 251)) {
                if (!in_used_row(rule, result.tensor, byte)) continue;
                const std::byte bit = flip(rule, std::byte{0x10});
                result.tensor.values[byte] ^= bit;
                if (!fails(ran, ran.the_case, results, result.tensor.name, rule))
                    FAIL(ran.the_case.file << " byte " << byte);
                result.tensor.values[byte] ^= bit;
                ++flipped;
            }
            for (std::byte& byte : result.padding) {
                byte ^= std::byte{0x01};
                if (!judge(*ran.kernel, ran.the_case, results)) FAIL(ran.the_case.file << " padding");
                byte ^= std::byte{0x01};
                ++padding;
            }
        }
    }
    CHECK(flipped > 2500);
    CHECK(padding > 100);
}

}  // namespace
}  // namespace tessera::tool_test
