// The command as a user types it: exit codes and the sentences on stderr.
#include "tools/tessera/command_line.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "runtime/settings.hpp"
#include "tests/support/scoped_environment.hpp"
#include "tests/tool/run_command.hpp"
#include "tests/tool/support.hpp"

namespace tessera::tool_test {
namespace {

std::string golden(const std::string& name) { return std::string(TESSERA_GOLDEN_FOLDER) + "/" + name + ".safetensors"; }

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream text(line);
    return {std::istream_iterator<std::string>(text), {}};
}

/// A golden case in `folder` of which the kernel, by its name, is none that there will ever be.
std::string case_of_no_kernel(const Folder& folder) {
    std::string bytes = get(golden("per_token_cast-3"));
    const std::string known = "\"per_token_cast\"", unknown = "\"per_acorn_cast\"";  // of one length
    const std::size_t at = bytes.find(known);
    REQUIRE(at != std::string::npos);
    bytes.replace(at, known.size(), unknown);
    const std::string path = folder.file("per_acorn_cast-1.safetensors");
    put(path, bytes);
    return path;
}

TEST_CASE("wrong usage is exit code 2 and help is 0") {
    CHECK(tessera({}).code == 2);
    CHECK(tessera({}).error == "tessera: A subcommand is required; `tessera --help` says what there is\n");
    CHECK(tessera({"frobnicate"}).code == 2);
    CHECK(tessera({"frobnicate"}).error ==
          "tessera: there is no subcommand \"frobnicate\"; `tessera --help` says what there is\n");
    CHECK(tessera({"cache", "frobnicate"}).error ==
          "tessera: cache has no subcommand \"frobnicate\"; `tessera cache --help` says what there is\n");
    CHECK(tessera({"verify"}).code == 2);
    CHECK(tessera({"--version"}).error ==
          "tessera: there is no option --version; `tessera --help` says what there is\n");
    CHECK(tessera({"verify", "--fast"}).error ==
          "tessera: there is no option --fast; `tessera verify --help` says what there is\n");
    CHECK(tessera({"cache", "import"}).error ==
          "tessera: path is required; `tessera cache import --help` says what there is\n");
    CHECK(tessera({"list", "--nonsense"}).error.find("--nonsense") != std::string::npos);
    CHECK(tessera({"quantize", "a"}).code == 2);
}

TEST_CASE("every help says in words what is taken, and its example is right") {
    for (const std::string command :
         {"list", "show", "run", "verify", "quantize", "bench", "doctor", "cache ls", "cache clear", "cache verify",
          "cache prune", "cache warm", "cache export", "cache import"}) {
        INFO(command);
        std::vector<std::string> words = words_of(command);
        words.emplace_back("--help");
        const Outcome help = tessera(words);
        CHECK(help.code == 0);
        for (const char* raw : {"TEXT", "INT", "UINT", "FLOAT", "REQUIRED"})
            CHECK(help.output.find(raw) == std::string::npos);
        std::istringstream lines(help.output);
        std::string line, example;
        while (std::getline(lines, line)) {
            CHECK(line.size() <= 100);
            if (line.starts_with("Example: tessera " + command)) example = line.substr(sizeof "Example: tessera");
        }
        REQUIRE(!example.empty());
        // All words of the example are understood if a word after them is the only one that is not.
        words = words_of(example);
        words.emplace_back("--no-such-option");
        const Outcome refused = tessera(words);
        CHECK(refused.code == 2);
        CHECK(refused.error.starts_with("tessera: The following argument was not expected: --no-such-option;"));
    }
    CHECK(tessera({"cache", "--help"}).output.find("TESSERA_CACHE_DIR") != std::string::npos);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"--help"}, {"cache", "--help"}, {"--help-all"}}) {
        const Outcome help = tessera(words);
        CHECK(help.code == 0);
        std::istringstream lines(help.output);
        for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
    }
}

TEST_CASE("bench refuses what it would not measure") {
    CHECK(tessera({"bench", "--compile", "quant"}).error ==
          "tessera: --compile has kernels of its own and takes no \"quant\"; leave it out\n");
    CHECK(tessera({"bench", "quant", "--start-up"}).error ==
          "tessera: --start-up has kernels of its own and takes no \"quant\"; leave it out\n");
    const Folder folder;
    const std::string json = folder.file("rows.json");
    const Outcome host = tessera({"bench", "transpose", "--host", "--json", json});
    CHECK(host.code == 1);
    CHECK(host.output.empty());
    CHECK(host.error == "tessera: --host has no rows for --json, which keeps device times; leave one of them out\n");
    CHECK(tessera({"bench", "--launch", "--compare", json}).error ==
          "tessera: --launch has no rows for --compare, which keeps device times; leave one of them out\n");
    CHECK(tessera({"bench", "--launch", "--start-up"}).error ==
          "tessera: --launch and --start-up measure different things; name one\n");
    CHECK(tessera({"bench", "--compile", "--host"}).error ==
          "tessera: --compile and --host measure different things; name one\n");
    CHECK(tessera({"bench", "--host", "--clock", "graph"}).error ==
          "tessera: --host measures no device time and takes no --clock; leave it out\n");
    CHECK(tessera({"bench", "transpose", "--host", "--device", "host:sm_100a"}).error ==
          "tessera: --host runs on the CPU as an H200 would and takes no --device; leave it out\n");
    CHECK(tessera({"bench", "--compile", "--device", "host"}).error ==
          "tessera: --compile makes kernels for an H200 and takes no --device; leave it out\n");
    CHECK(tessera({"bench", "nothing", "--host"})
              .error.find("there are no cases of nothing; name all, a category (quant") != std::string::npos);
    CHECK(tessera({"bench", "mhc_expand", "--host"})
              .error.ends_with("the kernel of a row: mhc_expand_bwd, mhc_expand_fwd\n"));
    const std::string filtered = tessera({"bench", "quant", "nonsense", "--host"}).error;
    CHECK(filtered.find("no case of quant has \"nonsense\" in its name; names are such as \"") != std::string::npos);
}

TEST_CASE("list and doctor print what there is") {
    const Outcome list = tessera({"list"});
    CHECK(list.code == 0);
    for (const char* name : {"batched_transpose", "per_block_cast", "per_token_cast", "num_per_channels"}) {
        CHECK(list.output.find(name) != std::string::npos);
    }
    const Outcome doctor = tessera({"doctor"});
    CHECK(doctor.code == 0);
    CHECK(doctor.output.find("NVRTC") != std::string::npos);
    CHECK(doctor.output.find("TESSERA_CACHE_DIR") != std::string::npos);
    CHECK(doctor.output.find("\nCUPTI ") != std::string::npos);
}

TEST_CASE("show refuses numbers that no shape has, and never ends without a word") {
    const auto error = [](const char* kernel, const char* option) {
        const Outcome shown = tessera({"show", kernel, option});
        CHECK(shown.code == 1);
        return shown.error;
    };
    for (const auto& [kernel, option] : {std::pair{"per_token_cast", "hidden=0"},
                                         {"per_token_cast", "hidden=4611686018427387904"},
                                         {"expand_to_fused", "topk=9223372036854775807"},
                                         {"expand_to_fused", "hidden=9223372036854775807"},
                                         {"expand_to_fused_with_sf", "num_per_channels=0"},
                                         {"mask_indices_by_tp", "num_ep_ranks=0"},
                                         {"mask_indices_by_tp", "num_tp_ranks=0"},
                                         {"engram_grad_w_reduce", "rows=0"},
                                         {"engram_hash", "ngram=1"},
                                         {"get_fused_mapping", "topk=0"},
                                         {"mhc_sinkhorn", "mhc_mult=0"},
                                         {"mhc_sinkhorn", "repeat=0"},
                                         {"topk_sum_and_topk_group_idx", "num_groups=0"}}) {
        const std::string text = error(kernel, option),
                          name = std::string(option).substr(0, std::string(option).find('='));
        INFO(kernel << " " << option << ": " << text);
        CHECK(text.find("the command line: the option " + name + " is ") != std::string::npos);
        const bool says_range = text.find("from ") != std::string::npos || text.find("at least") != std::string::npos;
        CHECK(says_range);
    }
}

TEST_CASE("doctor names every setting whose value is wrong, with the cure, and names that are none") {
    const files_test::Folder folder;
    files_test::put(folder.file("file"), "x");
    const std::string file = folder.file("file"), missing = folder.file("missing");
    const std::pair<std::string, std::string> wrong[] = {
        {"TESSERA_CACHE", "maybe"},        {"TESSERA_CACHE_DIR", file},    {"TESSERA_CACHE_SIZE", "1T"},
        {"TESSERA_CACHE_BUNDLE", missing}, {"TESSERA_NVRTC", missing},     {"TESSERA_CUPTI", missing},
        {"TESSERA_LINEINFO", "2"},         {"TESSERA_KEEP_SOURCE", file},  {"TESSERA_MEMORY_CACHE", "much"},
        {"TESSERA_HOST_CHECK", "never"},   {"TESSERA_HOST_WORKERS", "-3"}, {"TESSERA_VERBOSE", "loud"},
    };
    CHECK(std::size(wrong) == runtime::settings_table().size());
    for (const auto& [name, value] : wrong) {
        const test::ScopedEnvironment set{{name.c_str(), value.c_str()}};
        const Outcome doctor = tessera({"doctor"});
        INFO(name << "=" << value << "\n" << doctor.output << doctor.error);
        CHECK(doctor.code == 0);
        const std::size_t at = doctor.output.find("WRONG: " + name + " is \"" + value + "\", which is not ");
        REQUIRE(at != std::string::npos);
        CHECK(doctor.output.find("Correct it, or unset it", at) != std::string::npos);
        CHECK(doctor.output.find("WRONG: ", at + 1) == std::string::npos);
    }
    CHECK(tessera({"doctor"}).output.find("WRONG") == std::string::npos);
    const test::ScopedEnvironment other{{"TESSERA_CACHEDIR", "x"}};
    CHECK(tessera({"doctor"}).output.find("TESSERA_CACHEDIR       is no setting") != std::string::npos);
}

TEST_CASE("verify holds a case to its file") {
    const Outcome right = tessera({"verify", "--device", "host", golden("per_token_cast-7")});
    CHECK(right.code == 0);
    CHECK(right.output.find("1 passed, 0 failed, 0 skipped on host") != std::string::npos);

    const Folder folder;
    const std::string bad = folder.file("bad.safetensors");
    std::string bytes = get(golden("batched_transpose-3"));
    bytes.back() = static_cast<char>(bytes.back() ^ 4);
    put(bad, bytes);
    const Outcome wrong = tessera({"verify", "--device", "host", golden("per_token_cast-7"), bad});
    CHECK(wrong.code == 1);
    CHECK(wrong.output.find("FAILED   " + bad +
                            ": out.out differs in 1 of 49152 elements, first at [1, 191, 127]: expected 0x") !=
          std::string::npos);
    CHECK(wrong.output.find("1 passed, 1 failed") != std::string::npos);
}

TEST_CASE("verify fails when it cannot run something or runs nothing") {
    const Folder folder;
    const std::string nobodys = case_of_no_kernel(folder);
    const Outcome later = tessera({"verify", "--device", "host", nobodys});
    CHECK(later.code == 1);
    CHECK(later.output.find("the kernel per_acorn_cast is not written yet; leave the file out or give "
                            "--skip-unknown") != std::string::npos);
    const Outcome skipped = tessera({"verify", "--device", "host", "--skip-unknown", nobodys});
    CHECK(skipped.code == 1);
    CHECK(skipped.output.find("skipped") == 0);
    CHECK(skipped.error ==
          "tessera: no case was run, so nothing is verified; give files of kernels that `tessera list` names\n");
    const Outcome some = tessera({"verify", "--device", "host", "--skip-unknown", nobodys, golden("per_token_cast-3")});
    CHECK(some.code == 0);
    CHECK(some.output.find("1 passed, 0 failed, 1 skipped") != std::string::npos);

    const std::string typo = folder.file("typo");
    write_file(typo, {{{"in.x", StoredType::BF16, {0, 8}}, ""}},
               {{"kernel", "per_token_cast"}, {"args", "{\"sff\": \"rowf\"}"}, {"strides", "{}"}});
    const Outcome unknown = tessera({"verify", "--device", "host", "--skip-unknown", typo});
    CHECK(unknown.code == 1);
    CHECK(unknown.output.find("FAILED   " + typo + ": per_token_cast has no option \"sff\"") == 0);
    CHECK(tessera({"verify", "--device", "host", folder.file("none")}).code == 1);
}

TEST_CASE("run writes a case that verify accepts") {
    const Folder folder;
    const std::string out = folder.file("out.safetensors");
    for (const char* name : {"per_token_cast-2", "per_block_cast-2", "batched_transpose-1"}) {
        const Outcome run = tessera({"run", "--device", "host", golden(name), "--out", out, "--force"});
        CHECK(run.code == 0);
        CHECK(run.error.empty());
        CHECK(tessera({"verify", "--device", "host", out}).code == 0);
    }
    const Outcome again = tessera({"run", "--device", "host", golden("per_token_cast-2"), "--out", out});
    CHECK(again.code == 1);
    CHECK(again.error ==
          "tessera: the output " + out + " exists already; remove it or ask for it to be replaced (--force)\n");
}

TEST_CASE("show prints the stages that need no compiler") {
    const Outcome recorded = tessera({"show", "per_token_cast", "--stage", "program"});
    CHECK(recorded.code == 0);
    CHECK(recorded.output.find("per_token_cast") != std::string::npos);
    CHECK(tessera({"show", "batched_transpose", "in=e4m3", "--stage", "lowered", "--arch", "sm_100a"}).code == 0);
    const Outcome text = tessera(
        {"show", "per_block_cast", "in=f32", "block_size=32x128", "sf=packed", "hidden=4096", "--stage", "cuda"});
    CHECK(text.code == 0);
    CHECK(text.output.find("__global__") != std::string::npos);
    CHECK(tessera({"show", "nothing"}).error == "tessera: there is no kernel \"nothing\"; `tessera list` names them\n");
    CHECK(tessera({"show", "per_token_cast", "--arch", "sm_80"}).error ==
          "tessera: there is no target \"sm_80\"; use sm_90a or sm_100a\n");
    CHECK(tessera({"show", "per_token_cast", "--stage", "wasm"}).error ==
          "tessera: there is no stage \"wasm\"; use program, lowered, cuda, ptx, resources or sass\n");
    CHECK(tessera({"show", "per_token_cast", "in=i8"}).error ==
          "tessera: the command line: in is \"i8\"; use one of bf16, f32\n");
    CHECK(tessera({"show", "per_token_cast", "fmt=e9m9"}).error ==
          "tessera: the command line: fmt is \"e9m9\"; use one of e4m3, e2m1, e5m6\n");
}

TEST_CASE("show names each kernel of an operation of several") {
    const auto shown = [](std::vector<std::string> words) {
        words.insert(words.begin(), "show");
        return tessera(words).output;
    };
    CHECK_THAT(shown({"group_count"}), Catch::Contains("// group_count for sm_90a"));
    CHECK_THAT(shown({"group_count", "part=clear"}), Catch::Contains("// clear_counts for sm_90a"));
    CHECK_THAT(shown({"aux_fi"}), Catch::Contains("// aux_fi for sm_90a"));
    CHECK_THAT(shown({"mhc_pre_big_fuse", "part=product"}), Catch::Contains("// mhc_norm_product for sm_90a"));
    CHECK(tessera({"show", "group_count", "part=all"}).error ==
          "tessera: the command line: part is \"all\"; use count or clear\n");
}

TEST_CASE("quantize prints its table and refuses what it must") {
    const Folder folder;
    const std::string model = folder.file("model"), out = folder.file("out");
    write_file(model, {{{"w", StoredType::F32, {40, 40}}, std::string(6400, '\x3f')},
                       {{"b", StoredType::F32, {2}}, "12345678"}});
    const Outcome done = tessera({"quantize", model, "-o", out, "--device", "host"});
    CHECK(done.error.empty());
    CHECK(done.code == 0);
    CHECK(done.output.find("2: 1 quantized, 1 copied") != std::string::npos);
    CHECK(SafetensorsFile::open(out).tensors().size() == 3);

    CHECK(tessera({"quantize", model, "-o", out, "--device", "host"}).error ==
          "tessera: the output " + out + " exists already; remove it or ask for it to be replaced (--force)\n");
    CHECK(tessera({"quantize", model, "-o", out, "--device", "host", "--force"}).code == 0);
    CHECK(tessera({"quantize", model, "-o", model, "--force"}).error ==
          "tessera: the output " + model + " is the input itself; give another name\n");
    CHECK(tessera({"quantize", out, "-o", folder.file("twice")}).code == 1);
    CHECK(tessera({"quantize", model, "-o", folder.file("x"), "--format", "e2m1"}).error ==
          "tessera: there is no quantization to \"e2m1\" yet; use e4m3\n");
    for (const char* block : {"0x128", "128", "axb", "-1x4"}) {
        CHECK(tessera({"quantize", model, "-o", folder.file("x"), "--block", block}).code == 1);
    }
    CHECK(tessera({"quantize", folder.file("none"), "-o", folder.file("x")}).error ==
          "tessera: " + folder.file("none") + ": there is no such file; check the path\n");
    CHECK(tessera({"quantize", model, "-o", folder.file("x"), "--device", "tpu"}).code == 1);
    CHECK(folder.entries() == 2);
}

}  // namespace
}  // namespace tessera::tool_test
