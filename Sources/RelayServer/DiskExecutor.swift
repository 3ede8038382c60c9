import Dispatch

/// Where work is done that reads disks and computes, which connections' loops must not wait for.
package final class DiskExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "zonecast disk", qos: .utility, attributes: .concurrent)

    package init() {}

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
