import Foundation
import RelayStore

/// The files and sockets that a running relay may have open, and has.
struct OpenFiles: Sendable {
    var limit: Int
    /// `nil` where this user may not look.
    var count: Int?

    /// How more are allowed.
    static let remedy = "LimitNOFILE=65536 in the service, or ulimit -n 65536 before serve"

    init(limit: Int, count: Int?) {
        self.limit = limit
        self.count = count
    }

    /// `nil` where the system does not tell.
    init?(process: Int32) {
        let path = "/proc/\(process)"
        guard let text = FileManager.default.contents(atPath: path + "/limits") else { return nil }
        let line = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("Max open files") }
        guard let soft = line?.split(separator: " ").dropFirst(3).first else { return nil }
        limit = Int(soft) ?? .max
        count = try? FileManager.default.contentsOfDirectory(atPath: path + "/fd").count
    }

    /// Whether they are enough for so many connections and for the stores that are there.
    func finding(connections: Int, stores: Int) -> Finding {
        let shares = DescriptorShares(descriptors: limit)
        let used = count.map { "\($0) of \(limit)" } ?? "at most \(limit)"
        if let count, count >= limit - limit / 20 {
            return finding(.problem, "\(used) in use: connections wait, and containers may be refused with 503")
        }
        if shares.connections < connections {
            let room = "\(used), enough for \(shares.connections) connections instead of \(connections)"
            return finding(.advice, stores > shares.stores ? "\(room), and \(turns(stores, shares))" : room)
        }
        if stores > shares.stores { return Finding("open files", .good, "\(used); \(turns(stores, shares))") }
        return Finding("open files", .good, used)
    }

    private func turns(_ stores: Int, _ shares: DescriptorShares) -> String {
        "of \(stores) stores \(shares.stores) are open at once, in turns"
    }

    private func finding(_ grade: Finding.Grade, _ found: String) -> Finding {
        Finding("open files", grade, found, next: Self.remedy)
    }
}

extension FolderChecks {
    /// The stores that are in the folder, open or not.
    var storeCount: Int {
        let containers = "\(folder)/containers"
        let folders = (try? FileManager.default.contentsOfDirectory(atPath: containers)) ?? []
        return folders.reduce(0) { sum, name in
            let files = (try? FileManager.default.contentsOfDirectory(atPath: "\(containers)/\(name)")) ?? []
            return sum + files.count { $0.hasSuffix(".sqlite") }
        }
    }
}
