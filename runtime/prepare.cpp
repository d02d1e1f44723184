#include "runtime/prepare.hpp"

namespace tessera {

namespace {

thread_local constinit int depth = 0;

class Scope {
public:
    Scope() { ++depth; }
    ~Scope() { --depth; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
};

}  // namespace

void prepare(const std::function<void()>& body) {
    const Scope scope;
    body();
}

bool runtime::only_preparing() { return depth > 0; }

}  // namespace tessera
