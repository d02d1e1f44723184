#include "tools/tessera/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "dsl/base/error.hpp"
#include "tools/tessera/commands.hpp"

namespace tessera::tool {

namespace {

constexpr const char* device_help = "Where to run: host, host:sm_100a, cuda, cuda:1, or best (a GPU if there is one)";

/// The subcommands, each with its options; `chosen` becomes the one that was named.
class CommandLine {
public:
    CommandLine() {
        app_.require_subcommand(1);
        app_.set_help_all_flag("--help-all", "Print the help of all subcommands");
        app_.footer(
            "Settings are environment variables; `tessera doctor` prints them.\n"
            "Exit codes: 0 done, 1 refused or different, 2 wrong usage.");
        add_list();
        add_show();
        add_run();
        add_verify();
        add_quantize();
        add_bench();
        add_cache();
        add_doctor();
    }

    int run(int argc, char** argv) {
        app_.parse(argc, argv);
        return chosen_();
    }

    CLI::App& app() { return app_; }

    /// What is wrong with the words. CLI11 says of a wrong subcommand only that one is required.
    std::string fault(const CLI::ParseError& error) {
        const std::vector<std::string> words = app_.remaining(true);
        if (error.get_name() != "RequiredError" || words.empty() || words[0].starts_with("-")) return error.what();
        const std::vector<CLI::App*> named = app_.get_subcommands();
        if (named.empty()) return fmt::format("there is no subcommand \"{}\"", words[0]);
        if (!named[0]->get_subcommands({}).empty())
            return fmt::format("{} has no subcommand \"{}\"", named[0]->get_name(), words[0]);
        return error.what();
    }

private:
    CLI::App* add(CLI::App& parent, const char* name, const char* help, std::function<int()> action) {
        CLI::App* command = parent.add_subcommand(name, help);
        command->parse_complete_callback([this, action = std::move(action)] { chosen_ = action; });
        return command;
    }

    void add_list() { add(app_, "list", "Name the kernels and their options", list_kernels); }

    void add_show() {
        CLI::App* command =
            add(app_, "show", "Print a kernel at a stage of its way to machine code", [this] { return show(show_); });
        command->add_option("kernel", show_.kernel, "A kernel of `tessera list`")->required();
        command->add_option("options", show_.options,
                            "key=value words, such as in=f32 aligned=false sf=packed block_size=32x32 hidden=4096; "
                            "none: a default case");
        command
            ->add_option(
                "--stage", show_.stage,
                "program (as recorded), lowered (what a thread does), cuda, ptx, resources (registers, spills, "
                "shared memory, instructions, bank conflicts), sass (needs nvdisasm or cuobjdump)")
            ->capture_default_str();
        command->add_option("--arch", show_.arch, "sm_90a or sm_100a")->capture_default_str();
    }

    void add_run() {
        CLI::App* command = add(app_, "run", "Run a case and write its inputs and outputs as a new case",
                                [this] { return tool::run(run_); });
        command->add_option("case", run_.file, "A case file, such as those of tests/golden")->required();
        command->add_option("--out,-o", run_.output, "The file to write")->required();
        command->add_option("--device", run_.device, device_help)->capture_default_str();
        command->add_flag("--force", run_.force, "Replace the output if it exists");
    }

    void add_verify() {
        CLI::App* command = add(app_, "verify", "Run cases and compare the outputs with the files, bit for bit",
                                [this] { return verify(verify_); });
        command->add_option("cases", verify_.files, "Case files, such as those of tests/golden")->required();
        command->add_option("--device", verify_.device, device_help)->capture_default_str();
        command->add_flag("--skip-unknown", verify_.skip_unknown,
                          "List kernels and options that are not written yet as skipped instead of failing");
    }

    void add_quantize() {
        CLI::App* command =
            add(app_, "quantize", "Quantize the 2-D weights of a safetensors checkpoint to FP8 and measure the loss",
                [this] { return quantize(quantize_); });
        command->add_option("model", quantize_.input, "The checkpoint; F32, BF16 and F16 weights are quantized")
            ->required();
        command
            ->add_option("--out,-o", quantize_.output,
                         "The file to write: codes, <name>_scale_inv with the scales, all other tensors unchanged")
            ->required();
        command->add_option("--format", quantize_.format, "Format of the codes: e4m3")->capture_default_str();
        command->add_option("--block", quantize_.block, "Rows x columns of a scale block")->capture_default_str();
        command->add_option("--device", quantize_.device, device_help)->capture_default_str();
        command->add_flag("--force", quantize_.force, "Replace the output if it exists");
    }

    void add_bench() {
        CLI::App* command =
            add(app_, "bench", "Measure kernels: device time with cold L2 against a copy and the reference",
                [this] { return tool::bench(bench_); });
        command->add_option("what", bench_.what, "A category (quant, transpose …), a kernel, or all")
            ->capture_default_str();
        command->add_option("filter", bench_.filter, "Only cases whose name contains this");
        command->add_option("--device", bench_.device, device_help)->capture_default_str();
        command
            ->add_option("--clock", bench_.clock,
                         "What tells device time: cupti, graph (differences of graph replays), or auto: cupti if it "
                         "works")
            ->capture_default_str();
        command->add_option("--json", bench_.json, "Write the rows to this file too");
        command->add_option("--compare", bench_.compare, "An older --json file: exit 1 if a case is slower than in it");
        command->add_flag("--host", bench_.host, "Measure the host executor instead: elements a second");
        command->add_flag("--compile", bench_.compile,
                          "Measure what making each kernel costs: record, lower, emit, NVRTC (needs no GPU)");
        command->add_flag("--launch", bench_.launch, "Measure the host time of a launch against the driver's own call");
        command->add_flag("--start-up", bench_.start_up,
                          "Measure the first launch in a new process with a warm disk cache, split into its steps");
        command->add_option("--start-up-once", bench_.once)->group("");
    }

    void add_cache() {
        CLI::App* command = app_.add_subcommand("cache", "Look after the cache of compiled kernels");
        command->require_subcommand(1);
        add(*command, "ls", "List the entries, most recently used first", cache_list);
        add(*command, "clear", "Remove all entries", cache_clear);
        add(*command, "verify", "Read every entry and check it; exit code 1 if one is damaged", cache_verify);
        CLI::App* prune =
            add(*command, "prune", "Remove what was not used lately", [this] { return cache_prune(prune_); });
        prune->add_option("--size", prune_.size,
                          "Keep at most this many bytes, with K, M or G: least recently used go");
        prune->add_option("--age", prune_.age, "Keep what was used since, such as 12h, 30d, 8w");
        add_warm(*command);
        add_bundles(*command);
    }

    void add_warm(CLI::App& cache) {
        CLI::App* warm = add(cache, "warm", "Compile kernels ahead, in parallel, into the cache",
                             [this] { return cache_warm(warm_); });
        warm->add_option(
                "list", warm_.list,
                "A file with a kernel and its options, as `show` takes them, in each line; # begins a comment; "
                "- reads from standard input")
            ->required();
        warm->add_option("--arch", warm_.architectures,
                         "sm_90a, sm_100a, or both with a comma; else that of the GPU, and without one both")
            ->delimiter(',');
        warm->add_option("--jobs,-j", warm_.jobs, "Compile so many at a time; 0: one for each core")
            ->check(CLI::Range(0, 1024))
            ->capture_default_str();
    }

    void add_bundles(CLI::App& cache) {
        CLI::App* command = add(cache, "export", "Write all entries as a bundle that serves any NVRTC and none",
                                [this] { return cache_export(bundle_); });
        command->add_option("path", bundle_.path, "A file, or a folder (one that exists, or with / at its end)")
            ->required();
        command->add_flag("--force", bundle_.force, "Replace the file if it exists");
        command = add(cache, "import", "Add the entries of a bundle, or of another cache folder, to the cache",
                      [this] { return cache_import(bundle_); });
        command->add_option("path", bundle_.path, "The bundle")->required();
    }

    void add_doctor() {
        add(app_, "doctor", "Say what was found (driver, compiler, devices, cache) and what all settings are", doctor);
    }

    CLI::App app_{"Tessera: GPU kernels written in a C++ tile language, compiled at run time", "tessera"};
    ShowRequest show_;
    RunRequest run_;
    VerifyRequest verify_;
    BenchRequest bench_;
    QuantizeRequest quantize_;
    CachePruneRequest prune_;
    CacheWarmRequest warm_;
    CacheBundleRequest bundle_;
    std::function<int()> chosen_;
};

int complain(const char* what, int code) {
    std::fflush(stdout);
    fmt::print(stderr, "tessera: {}\n", what);
    return code;
}

}  // namespace

int run_command_line(int argc, char** argv) {
    try {
        CommandLine line;
        try {
            return line.run(argc, argv);
        } catch (const CLI::Success& help) {
            return line.app().exit(help);
        } catch (const CLI::ParseError& error) {
            return complain(fmt::format("{}; `tessera --help` says what there is", line.fault(error)).c_str(), 2);
        }
    } catch (const Error& error) {
        return complain(error.what(), 1);
    } catch (const std::bad_alloc&) {
        return complain("there is not enough memory; close other programs or take smaller files", 1);
    } catch (const std::exception& error) {
        return complain(fmt::format("unexpected error: {}; please report it", error.what()).c_str(), 1);
    }
}

}  // namespace tessera::tool
