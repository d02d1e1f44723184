#pragma once

#include <future>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace tessera::runtime {

/// Values made at the first request, once for each key however many threads ask: the first makes it, without a lock;
/// the others wait for it alone. If making fails, all who wait get the exception, and the next request tries again.
template <class Key, class Value, class Hash>
class OnceTable {
public:
    /// `was_there` tells if it was made before, or by another thread meanwhile.
    template <class Make>
    Value get(const Key& key, Make&& make, bool* was_there = nullptr) {
        std::promise<Value> promise;
        std::shared_future<Value> future;
        bool mine = false;
        {
            const std::lock_guard lock(mutex_);
            auto [slot, is_new] = values_.try_emplace(key);
            if (is_new) slot->second = promise.get_future().share();
            future = slot->second;
            mine = is_new;
        }
        if (was_there) *was_there = !mine;
        if (mine) fill(key, promise, make);
        return future.get();
    }

    /// What later requests get instead.
    void set(const Key& key, Value value) {
        std::promise<Value> promise;
        promise.set_value(std::move(value));
        const std::lock_guard lock(mutex_);
        values_.insert_or_assign(key, promise.get_future().share());
    }

private:
    template <class Make>
    void fill(const Key& key, std::promise<Value>& promise, Make& make) {
        try {
            promise.set_value(make());
        } catch (...) {
            {
                const std::lock_guard lock(mutex_);
                values_.erase(key);
            }
            promise.set_exception(std::current_exception());
        }
    }

    std::mutex mutex_;
    std::unordered_map<Key, std::shared_future<Value>, Hash> values_;
};

}  // namespace tessera::runtime
