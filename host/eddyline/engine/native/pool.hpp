// Threads that share out numbered tasks.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace eddyline {

class Pool {
    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void(size_t)>* task_ = nullptr;
    std::atomic<size_t> next_{0};
    size_t tasks_ = 0, busy_ = 0, round_ = 0;
    bool stopping_ = false;
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

public:
    explicit Pool(size_t threads) {
        for (size_t i = 1; i < threads; i++)
            threads_.emplace_back([this] {
                std::unique_lock lock(mutex_);
                for (size_t seen = 0;;) {
                    wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
                    if (stopping_) return;
                    seen = round_;
                    lock.unlock();
                    work();
                    lock.lock();
                    if (!--busy_) done_.notify_one();
                }
            });
    }
    ~Pool() {
        {
            std::lock_guard guard(mutex_);
            stopping_ = true;
        }
        wake_.notify_all();
        for (auto& thread : threads_) thread.join();
    }

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
            busy_ = threads_.size();
            round_++;
        }
        wake_.notify_all();
        work();
        std::unique_lock lock(mutex_);
        done_.wait(lock, [&] { return !busy_; });
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }
};

}  // namespace eddyline
