#pragma once

#include <string>
#include <vector>

#include "dsl/base/target.hpp"

// What the subcommands of `tessera` do, one file each. They print to stdout, return the exit code, and throw the
// library's errors, which main prints as one sentence.

namespace tessera::tool {

int list_kernels();

struct ShowRequest {
    std::string kernel;
    std::vector<std::string> options;  // key=value
    std::string stage = "cuda";
    std::string arch = "sm_90a";
};
int show(const ShowRequest& request);
/// "sm_90a" or "sm_100a". Errors: UsageError.
Target target_named(const std::string& arch);

struct RunRequest {
    std::string file;
    std::string output;
    std::string device = "best";
    bool force = false;
};
int run(const RunRequest& request);

struct VerifyRequest {
    std::vector<std::string> files;
    std::string device = "best";
    bool skip_unknown = false;
};
int verify(const VerifyRequest& request);

struct QuantizeRequest {
    std::string input;
    std::string output;
    std::string format = "e4m3";
    std::string block = "128x128";
    std::string device = "best";
    bool force = false;
};
int quantize(const QuantizeRequest& request);

struct BenchRequest {
    std::string what = "all";
    std::string filter;
    std::string device = "best";
    std::string clock = "auto";
    std::string json;
    std::string compare;
    bool host = false;
    bool compile = false;
    bool launch = false;
    bool start_up = false;
    std::string once;  // a start-up in this very process, of this kernel
};
int bench(const BenchRequest& request);

int cache_list();
int cache_clear();
int cache_verify();

struct CachePruneRequest {
    std::string size;  // "512M"; empty: any
    std::string age;   // "30d"; empty: any
};
int cache_prune(const CachePruneRequest& request);

struct CacheWarmRequest {
    std::string list;  // a file as warm_list.hpp says; "-": standard input
    std::vector<std::string> architectures;
    int jobs = 0;  // 0: one for each core
};
int cache_warm(const CacheWarmRequest& request);

struct CacheBundleRequest {
    std::string path;
    bool force = false;
};
int cache_export(const CacheBundleRequest& request);
int cache_import(const CacheBundleRequest& request);

int doctor();

}  // namespace tessera::tool
