#include "tools/tessera/warm_list.hpp"

#include <fmt/format.h>
#include <sstream>

#include "dsl/base/error.hpp"

namespace tessera::tool {

namespace {

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

WarmItem item_of(std::vector<std::string> words, int line) {
    const KernelEntry* kernel = find_kernel(words.front());
    if (!kernel)
        throw UsageError(fmt::format("there is no kernel {}; `tessera list` names them", json::shown(words.front())));
    words.erase(words.begin());
    Arguments args = Arguments::from_words(words, kernel->name);
    if (const auto later = check_options(*kernel, args, {"in", "aligned"}))
        throw UsageError(*later + "; choose another value");
    return {line, kernel, std::move(args)};
}

}  // namespace

std::vector<WarmItem> read_warm_list(std::istream& text, const std::string& where) {
    std::vector<WarmItem> items;
    int number = 0;
    for (std::string line; std::getline(text, line);) {
        ++number;
        auto words = words_of(line);
        if (words.empty()) continue;
        try {
            items.push_back(item_of(std::move(words), number));
        } catch (const UsageError& error) {
            throw UsageError(fmt::format("{}:{}: {}", where, number, error.what()));
        }
    }
    if (items.empty())
        throw UsageError(fmt::format("{} names no kernel; write a line such as `per_token_cast hidden=4096`", where));
    return items;
}

}  // namespace tessera::tool
