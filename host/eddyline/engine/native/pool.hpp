// Threads that share out numbered tasks.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace eddyline {

class Pool {
    static constexpr int PATIENCE = 30;  // microseconds
    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void(size_t)>* task_ = nullptr;
    std::atomic<size_t> next_{0}, busy_{0}, round_{0};
    std::atomic<bool> stopping_{false};
    std::atomic<size_t> tasks_{0};
    std::exception_ptr failure_;

    void work() {
        for (size_t i; (i = next_.fetch_add(1)) < tasks_;) {
            try {
                (*task_)(i);
            } catch (...) {
                std::lock_guard guard(mutex_);
                failure_ = std::current_exception();
            }
        }
    }

    // Look for a while before going to sleep: a batch is many short tasks with little in between, and
    // to be woken up takes as long as some of them.
    template <class Ready> static void look(const Ready& ready) {
        using Clock = std::chrono::steady_clock;
        for (auto until = Clock::now() + std::chrono::microseconds(PATIENCE); !ready() && Clock::now() < until;)
            for (int i = 0; i < 16 && !ready(); i++) {
#if defined(__x86_64__)
                __builtin_ia32_pause();
#else
                std::this_thread::yield();
#endif
            }
    }

    // What a thread does all its life. One that wakes up when all tasks are taken is not waited for.
    void wait() {
        for (size_t seen = 0;;) {
            auto called = [&] { return stopping_ || round_ != seen; };
            look(called);
            {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, called);
                if (stopping_) return;
                seen = round_;
                if (next_ >= tasks_) continue;
                busy_++;
            }
            work();
            if (--busy_) continue;
            std::lock_guard guard(mutex_);  // or the one who waits might miss it
            done_.notify_one();
        }
    }

    void stop() {
        {
            std::lock_guard guard(mutex_);
            stopping_ = true;
        }
        wake_.notify_all();
        for (auto& thread : threads_) thread.join();
    }

public:
    explicit Pool(size_t threads) {
        try {
            for (size_t i = 1; i < threads; i++) threads_.emplace_back([this] { wait(); });
        } catch (const std::system_error&) {  // those that wait must not be left behind
            size_t started = size();
            stop();
            throw std::runtime_error("this machine has room for " + std::to_string(started) + " of " +
                                     std::to_string(threads) + " threads: ask for fewer");
        }
    }
    ~Pool() { stop(); }

    size_t size() const { return threads_.size() + 1; }

    // Do all tasks; one thread does them, in order, where others are not worth waking up.
    void run(size_t tasks, const std::function<void(size_t)>& task, bool worth = true) {
        if (threads_.empty() || tasks < 2 || !worth) {
            for (size_t i = 0; i < tasks; i++) task(i);
            return;
        }
        {
            std::lock_guard guard(mutex_);
            task_ = &task;
            tasks_ = tasks;
            next_ = 0;
            round_++;
        }
        wake_.notify_all();
        work();
        auto done = [&] { return !busy_; };
        look(done);
        std::unique_lock lock(mutex_);  // from here on, who comes finds that all tasks are taken
        done_.wait(lock, done);
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }
};

}  // namespace eddyline
