import Dispatch

/// An executor for work that blocks on the disk or computes for long, which must not run on event loops.
package final class DiskExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "zonecast disk", qos: .utility, attributes: .concurrent)

    package init() {}

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
