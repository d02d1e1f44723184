#include "tools/tessera/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "bench/case.hpp"
#include "dsl/base/error.hpp"
#include "tools/tessera/commands.hpp"
#include "tools/tessera/help_format.hpp"

namespace tessera::tool {

namespace {

constexpr const char* device_help =
    "Where to run: host (the CPU, as an H200 would), host:sm_100a (as a B200 would), cuda (the first GPU), cuda:1, or "
    "best: the GPU if there is one, else host";
constexpr const char* case_help =
    "a safetensors file that names a kernel and its options and holds its inputs and expected outputs, such as those "
    "of tests/golden";
constexpr const char* common_footer =
    "Settings are environment variables; `tessera doctor` prints them.\n"
    "Exit codes: 0 done, 1 refused or different, 2 wrong usage.";

std::vector<std::string> category_names() {
    std::vector<std::string> names;
    for (const bench::Category& category : bench::categories()) names.emplace_back(category.name);
    return names;
}

/// The subcommands, each with its options; `chosen` becomes the one that was named.
class CommandLine {
public:
    CommandLine() {
        app_.require_subcommand(1);
        app_.formatter(std::make_shared<HelpFormat>());
        app_.footer(common_footer);
        add_list();
        add_show();
        add_run();
        add_verify();
        add_quantize();
        add_bench();
        add_cache();
        add_doctor();
        app_.set_help_all_flag("--help-all", "Print the help of all subcommands");  // last: no subcommand inherits it
    }

    int run(int argc, char** argv) {
        app_.parse(argc, argv);
        return chosen_();
    }

    CLI::App& app() { return app_; }

    /// What is wrong with the words. CLI11 says of a wrong subcommand only that one is required.
    std::string fault(const CLI::ParseError& error) {
        const std::vector<std::string> words = app_.remaining(true);
        if (error.get_name() != "RequiredError" || words.empty()) return error.what();
        if (words[0].starts_with("-")) return fmt::format("there is no option {}", words[0]);
        const std::vector<CLI::App*> named = app_.get_subcommands();
        if (named.empty()) return fmt::format("there is no subcommand \"{}\"", words[0]);
        if (!named[0]->get_subcommands({}).empty())
            return fmt::format("{} has no subcommand \"{}\"", named[0]->get_name(), words[0]);
        return error.what();
    }

    /// The command whose help tells what may follow the words that were understood: "tessera cache import --help".
    std::string help_command() const {
        std::string words = app_.get_name();
        for (const CLI::App* at = &app_; !at->get_subcommands().empty();) {
            at = at->get_subcommands()[0];
            words += " " + at->get_name();
        }
        return words + " --help";
    }

private:
    CLI::App* add(CLI::App& parent, const char* name, const char* help, const char* example,
                  std::function<int()> action) {
        CLI::App* command = parent.add_subcommand(name, help);
        command->parse_complete_callback([this, action = std::move(action)] { chosen_ = action; });
        command->footer(fmt::format("Example: tessera {}\n\n{}", example, common_footer));
        return command;
    }

    void add_list() { add(app_, "list", "Name the kernels and their options", "list", list_kernels); }

    void add_show() {
        CLI::App* command = add(app_, "show", "Print a kernel at a stage of its way to machine code",
                                "show per_token_cast in=f32 sf=packed --stage lowered", [this] { return show(show_); });
        command->add_option("kernel", show_.kernel, "The name of a kernel, as `tessera list` prints it")->required();
        command->add_option(
            "options", show_.options,
            "key=value words, such as in=f32 aligned=false sf=packed block_size=32x32 hidden=4096; what "
            "is left out is as in a default case; 'sf=?' is answered with what sf may be");
        command
            ->add_option(
                "--stage", show_.stage,
                "program (as recorded), lowered (what a thread does), cuda, ptx, resources (registers, spills, "
                "shared memory, instructions, bank conflicts), or sass (needs nvdisasm or cuobjdump)")
            ->type_name("STAGE")
            ->capture_default_str();
        command->add_option("--arch", show_.arch, "The GPU to compile for: sm_90a (H200) or sm_100a (B200)")
            ->type_name("ARCH")
            ->capture_default_str();
    }

    void add_device(CLI::App& command, std::string& device) {
        command.add_option("--device", device, device_help)->type_name("DEVICE")->capture_default_str();
    }

    void add_run() {
        CLI::App* command = add(app_, "run", "Run a case and write its inputs and outputs as a new case",
                                "run tests/golden/per_token_cast-1.safetensors -o case.safetensors",
                                [this] { return tool::run(run_); });
        command->add_option("case", run_.file, fmt::format("A case: {}", case_help))->required();
        command->add_option("--out,-o", run_.output, "The file to write")->type_name("FILE")->required();
        add_device(*command, run_.device);
        command->add_flag("--force", run_.force, "Replace the output if it exists");
    }

    void add_verify() {
        CLI::App* command = add(app_, "verify", "Run cases and compare the outputs with the files, bit for bit",
                                "verify tests/golden/batched_transpose-*.safetensors --device host",
                                [this] { return verify(verify_); });
        command->add_option("cases", verify_.files, fmt::format("Cases, each {}", case_help))->required();
        add_device(*command, verify_.device);
        command->add_flag("--skip-unknown", verify_.skip_unknown,
                          "List kernels and options that are not written yet as skipped instead of failing");
    }

    void add_quantize() {
        CLI::App* command =
            add(app_, "quantize", "Quantize the 2-D weights of a safetensors checkpoint to FP8 and measure the loss",
                "quantize model.safetensors -o model-fp8.safetensors", [this] { return quantize(quantize_); });
        command
            ->add_option("model", quantize_.input,
                         "The checkpoint, a safetensors file; its F32, BF16 and F16 weights are quantized")
            ->required();
        command
            ->add_option("--out,-o", quantize_.output,
                         "The file to write: codes, <name>_scale_inv with the scales, all other tensors unchanged")
            ->type_name("FILE")
            ->required();
        command->add_option("--format", quantize_.format, "Format of the codes; e4m3 is the only one")
            ->type_name("FORMAT")
            ->capture_default_str();
        command->add_option("--block", quantize_.block, "Elements that share one scale: rows, x, columns")
            ->type_name("RxC")
            ->capture_default_str();
        add_device(*command, quantize_.device);
        command->add_flag("--force", quantize_.force, "Replace the output if it exists");
    }

    void add_bench() {
        CLI::App* command = add(app_, "bench",
                                "Measure kernels on a GPU: device time with cold L2 against a copy and the reference. "
                                "Without a GPU only --host, --compile and --start-up measure something.",
                                "bench quant T=8001 --json rows.json", [this] { return tool::bench(bench_); });
        command
            ->add_option(
                "what", bench_.what,
                fmt::format("The rows to measure: all, those of a category ({}), or those whose first word, the "
                            "kernel, is this, such as per_token_cast",
                            fmt::join(category_names(), ", ")))
            ->capture_default_str();
        command->add_option("filter", bench_.filter,
                            "Of these, only rows that contain this text after the kernel, such as T=8001 or fmt=e2m1");
        add_device(*command, bench_.device);
        command
            ->add_option("--clock", bench_.clock,
                         "What tells device time: cupti, graph (differences of graph replays), or auto: cupti if it "
                         "works (`tessera doctor` says whether it was found)")
            ->type_name("CLOCK")
            ->capture_default_str();
        command->add_option("--json", bench_.json, "Write the rows to this file too")->type_name("FILE");
        command->add_option("--compare", bench_.compare, "An older --json file: exit 1 if a case is slower than in it")
            ->type_name("FILE");
        command->add_flag("--host", bench_.host,
                          "Measure the host executor instead: elements a second (needs no GPU; all takes minutes)");
        command->add_flag("--compile", bench_.compile,
                          "Measure what making each kernel costs: record, lower, emit, NVRTC (needs no GPU)");
        command->add_flag("--launch", bench_.launch, "Measure the host time of a launch against the driver's own call");
        command->add_flag("--start-up", bench_.start_up,
                          "Measure the first launch in a new process with a warm disk cache, split into its steps "
                          "(without a GPU: up to the launch)");
        command->add_option("--start-up-once", bench_.once)->group("");
    }

    void add_cache() {
        CLI::App* command = app_.add_subcommand("cache", "Look after the cache of compiled kernels");
        command->require_subcommand(1);
        command->footer(fmt::format(
            "The cache is a folder: TESSERA_CACHE_DIR, else $XDG_CACHE_HOME/tessera, else ~/.cache/tessera.\n\n{}",
            common_footer));
        add(*command, "ls", "List the entries, most recently used first", "cache ls", cache_list);
        add(*command, "clear", "Remove all entries", "cache clear", cache_clear);
        add(*command, "verify", "Read every entry and check it; exit code 1 if one is damaged", "cache verify",
            cache_verify);
        CLI::App* prune = add(*command, "prune", "Remove what was not used lately", "cache prune --size 512M --age 30d",
                              [this] { return cache_prune(prune_); });
        prune
            ->add_option("--size", prune_.size,
                         "Keep at most so many bytes, those used last: digits, with K, M or G (powers of 1024) behind "
                         "them if wanted, such as 512M")
            ->type_name("SIZE");
        prune
            ->add_option("--age", prune_.age,
                         "Keep only what was used within this time: digits with s, m (minutes), h, d or w behind them, "
                         "such as 12h or 30d; one of the two must be given, and with both both hold")
            ->type_name("TIME");
        add_warm(*command);
        add_bundles(*command);
    }

    void add_warm(CLI::App& cache) {
        CLI::App* warm =
            add(cache, "warm", "Compile kernels ahead, in parallel, into the cache",
                "cache warm examples/kernels.list --arch sm_90a,sm_100a -j 4", [this] { return cache_warm(warm_); });
        warm->add_option(
                "list", warm_.list,
                "A text file, such as examples/kernels.list: in each line a kernel and its options, as `tessera show` "
                "takes them; # begins a comment; - reads from standard input")
            ->required();
        warm->add_option("--arch", warm_.architectures,
                         "GPUs to compile for: sm_90a (H200), sm_100a (B200), or both with a comma between; left out: "
                         "the one that is here, and without a GPU both")
            ->delimiter(',')
            ->type_name("ARCH");
        warm->add_option("--jobs,-j", warm_.jobs, "Compile so many at a time, up to 1024; 0: one for each core")
            ->check(CLI::Range(0, 1024).description(""))
            ->type_name("COUNT")
            ->capture_default_str();
    }

    void add_bundles(CLI::App& cache) {
        CLI::App* command =
            add(cache, "export",
                "Write all entries as a bundle, which travels with a program and serves any NVRTC and none",
                "cache export my_program/tessera.bundle", [this] { return cache_export(export_); });
        command
            ->add_option(
                "path", export_.path,
                "The bundle to write: a file, or a folder where one lies or the name ends with /. A program "
                "asks the bundle that TESSERA_CACHE_BUNDLE names, else tessera.bundle in its own folder, after "
                "the cache and before it compiles")
            ->required();
        command->add_flag("--force", export_.force, "Replace the file if it exists");
        command = add(cache, "import", "Copy the entries of a bundle, or of another cache folder, into the cache",
                      "cache import my_program/tessera.bundle", [this] { return cache_import(import_); });
        command
            ->add_option(
                "path", import_.path,
                "The file or folder that `tessera cache export` wrote (a bundle), or the folder of another "
                "cache. It stays as it is, and so does an entry that the cache has already. A program can use a "
                "bundle without this: TESSERA_CACHE_BUNDLE names it")
            ->required();
    }

    void add_doctor() {
        add(app_, "doctor", "Say what was found (driver, compiler, devices, cache) and what all settings are", "doctor",
            doctor);
    }

    CLI::App app_{"Tessera: GPU kernels written in a C++ tile language, compiled at run time", "tessera"};
    ShowRequest show_;
    RunRequest run_;
    VerifyRequest verify_;
    BenchRequest bench_;
    QuantizeRequest quantize_;
    CachePruneRequest prune_;
    CacheWarmRequest warm_;
    CacheBundleRequest export_, import_;
    std::function<int()> chosen_;
};

int complain(const char* what, int code) {
    std::fflush(stdout);
    std::fputs(fmt::format("tessera: {}\n", what).c_str(), stderr);  // which may be full, too
    return code;
}

int cannot_print() {
    return complain(
        "standard output cannot be written to, so what it holds is not whole; make room, or send it elsewhere", 1);
}

/// The exit code, once all that was printed has gone out.
int printed(int code) { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? code : cannot_print(); }

}  // namespace

int run_command_line(int argc, char** argv) {
    try {
        CommandLine line;
        try {
            return printed(line.run(argc, argv));
        } catch (const CLI::Success& help) {
            return printed(line.app().exit(help));
        } catch (const CLI::ParseError& error) {
            return complain(fmt::format("{}; `{}` says what there is", line.fault(error), line.help_command()).c_str(),
                            2);
        }
    } catch (const Error& error) {
        return complain(error.what(), 1);
    } catch (const std::bad_alloc&) {
        return complain("there is not enough memory; close other programs or take smaller files", 1);
    } catch (const std::exception& error) {
        if (std::ferror(stdout) != 0) return cannot_print();  // fmt::print throws
        return complain(fmt::format("unexpected error: {}; please report it", error.what()).c_str(), 1);
    }
}

}  // namespace tessera::tool
