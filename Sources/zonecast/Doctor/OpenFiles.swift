import Foundation
import RelayStore

/// The limit and the number of open files and sockets of a relay.
struct OpenFiles: Sendable {
    var limit: Int
    /// The number of open descriptors; `nil` if this user may not read it.
    var count: Int?

    /// How to raise the limit.
    static let remedy = "LimitNOFILE=65536 in the service, or ulimit -n 65536 before serve"

    init(limit: Int, count: Int?) {
        self.limit = limit
        self.count = count
    }

    /// Returns `nil` if the system does not report the limit of that process.
    init?(process: Int32) {
        let path = "/proc/\(process)"
        guard let text = FileManager.default.contents(atPath: path + "/limits") else { return nil }
        let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("Max open files") }
        guard let soft = line?.split(separator: " ").dropFirst(3).first else { return nil }
        limit = Int(soft) ?? .max
        count = try? FileManager.default.contentsOfDirectory(atPath: path + "/fd").count
    }

    /// Checks whether the limit suffices for this many connections and stores.
    func finding(connections: Int, stores: Int) -> Finding {
        let shares = DescriptorShares(descriptors: limit)
        let used = count.map { "\($0) of \(limit)" } ?? "at most \(limit)"
        if let count, count >= limit - limit / 20 {
            return finding(.problem, "\(used) in use: new connections wait, and requests may be refused with 503")
        }
        if shares.connections < connections {
            let room = "\(used), enough for \(shares.connections) connections instead of \(connections)"
            return finding(.advice, stores > shares.stores ? "\(room), and \(turns(stores, shares))" : room)
        }
        if stores > shares.stores { return Finding("open files", .good, "\(used); \(turns(stores, shares))") }
        return Finding("open files", .good, used)
    }

    private func turns(_ stores: Int, _ shares: DescriptorShares) -> String {
        "at most \(shares.stores) of \(stores) stores are open at a time"
    }

    private func finding(_ grade: Finding.Grade, _ found: String) -> Finding {
        Finding("open files", grade, found, next: Self.remedy)
    }
}

extension FolderChecks {
    /// The number of stores in the folder, open or not.
    var storeCount: Int {
        let containers = "\(folder)/containers"
        let folders = (try? FileManager.default.contentsOfDirectory(atPath: containers)) ?? []
        return folders.reduce(0) { sum, name in
            let files = (try? FileManager.default.contentsOfDirectory(atPath: "\(containers)/\(name)")) ?? []
            return sum + files.count { $0.hasSuffix(".sqlite") }
        }
    }
}
