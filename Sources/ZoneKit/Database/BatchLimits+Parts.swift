import SyncCore

extension BatchLimits {
    /// Splits two lists that belong together into as many requests as necessary; one request if both are empty.
    static func parts<First, Second>(_ first: [First], _ second: [Second]) -> [(first: [First], second: [Second])] {
        let count = first.count + second.count
        return stride(from: 0, to: max(count, 1), by: maxOperations).map { start in
            let end = min(start + maxOperations, count)
            return (
                Array(first[min(start, first.count)..<min(end, first.count)]),
                Array(second[max(start - first.count, 0)..<max(end - first.count, 0)])
            )
        }
    }
}
