#pragma once

#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>

namespace tessera::test {

/// Sets (or, with an empty value, unsets) variables of the environment until the end of the scope.
class ScopedEnvironment {
public:
    ScopedEnvironment(std::initializer_list<std::pair<const char*, std::string>> values) {
        for (const auto& [name, value] : values) {
            const char* old = std::getenv(name);
            before_[name] = old ? old : "";
            set(name, value);
        }
    }
    ~ScopedEnvironment() {
        for (const auto& [name, value] : before_) set(name, value);
    }
    ScopedEnvironment(const ScopedEnvironment&) = delete;
    ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

private:
    static void set(const std::string& name, const std::string& value) {
        if (value.empty())
            ::unsetenv(name.c_str());
        else
            ::setenv(name.c_str(), value.c_str(), 1);
    }

    std::map<std::string, std::string> before_;
};

}  // namespace tessera::test
