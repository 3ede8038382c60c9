import ArgumentParser
import Foundation
import RelayCore
import RelaySystem
import ZoneKit

/// `zonecast status`: one screen about a data folder and the relay that runs on it.
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show a relay on one screen: address, containers, users, connections, storage, backup, problems.",
        discussion: """
            Reads the data folder, while a relay is running or not. Connections are those of /metrics, if it is open or \
            metrics.token-file is set. zonecast doctor checks more, such as the public address and a real sync.
            """
    )

    @OptionGroup var settings: SettingsOption
    @OptionGroup var options: FolderOptions

    private struct Answer: Encodable {
        var version: String
        var data: String
        /// The address of the running relay.
        var address: String?
        var isRunning: Bool
        var containers: Int
        var users: Int
        var connections: Int?
        var noticeConnections: Int?
        var storageBytes: Int64
        var freeBytes: Int64
        var backup: String
        var problems: [String]
    }

    func run() async throws {
        let settings = try await settings.read(options)
        let data = settings.data
        let (containers, users) = try FolderOptions(data: data).withDirectory {
            (try $0.containers().count, try $0.accounts().count)
        }
        let running = FolderLock.runningRelay(in: data)
        let address = Self.reachable(running ?? nil)
        var (metrics, refusal) = (String?.none, "set metrics.token-file")
        do {
            metrics = try await Self.metrics(of: address, token: try? settings.metricsToken())
        } catch {
            refusal = "\(address ?? data) \(error)"
        }
        let checks = FolderChecks(folder: data, isThorough: false, configuration: self.settings.config)
        let backup = checks.backup(now: Date())
        let findings = [checks.storage(), backup] + (checks.alerts().map { [$0] } ?? [])
        let answer = Answer(
            version: Zonecast.version,
            data: data,
            address: address,
            isRunning: running != nil,
            containers: containers,
            users: users,
            connections: metrics.flatMap { Self.sum("zonecast_connections", in: $0) },
            noticeConnections: metrics.flatMap { Self.sum("zonecast_notice_connections", in: $0) },
            storageBytes: Self.bytes(below: data),
            freeBytes: Int64(clamping: FreeSpace.bytes(in: data) ?? 0),
            backup: backup.found,
            problems: findings.filter { $0.grade == .problem }.map { "\($0.check): \($0.found)" }
        )
        if options.json { try Terminal.say(json: answer) } else { say(answer, refusal) }
    }

    /// `refusal` is why the number of connections is unknown, if it is.
    private func say(_ answer: Answer, _ refusal: String) {
        let address = answer.isRunning ? answer.address ?? "running" : "no relay is running on this folder"
        let connections = answer.connections.map { "\($0), \(answer.noticeConnections ?? 0) of them for notices" }
        Terminal.say("version      \(answer.version)")
        Terminal.say("address      \(address)")
        Terminal.say("data         \(answer.data)")
        Terminal.say("containers   \(answer.containers)")
        Terminal.say("users        \(answer.users)")
        Terminal.say("connections  \(connections ?? (answer.isRunning ? "unknown: \(refusal)" : "-"))")
        Terminal.say("storage      \(ByteText.of(answer.storageBytes)), \(ByteText.of(answer.freeBytes)) free")
        Terminal.say("backup       \(answer.backup)")
        Terminal.say(
            "problems     \(answer.problems.isEmpty ? "none" : answer.problems.joined(separator: "\n             "))"
        )
        if !answer.isRunning {
            let start = PackageFiles.start(on: answer.data, by: settings.config)
            return Terminal.tell("next         \(start)")
        }
        Terminal.tell("next         zonecast doctor --data \(answer.data.shellWord)")
    }

    /// Returns an address for this machine; a wildcard address becomes loopback.
    private static func reachable(_ address: String?) -> String? {
        guard let address, var place = ProbeAddress(address) else { return nil }
        place.resolveWildcard()
        return "\(place)"
    }

    /// Returns the sum of a metric's samples; `nil` if there are none.
    static func sum(_ name: String, in metrics: String) -> Int? {
        let values = metrics.split(separator: "\n").compactMap { line -> Double? in
            guard line.hasPrefix(name), [" ", "{"].contains(line.dropFirst(name.count).first) else { return nil }
            return line.split(separator: " ").last.flatMap { Double($0) }
        }
        return values.isEmpty ? nil : Int(values.reduce(0, +))
    }

    /// Returns the size of the folder's files, without backups below it.
    private static func bytes(below folder: String) -> Int64 {
        let keys: [URLResourceKey] = [.fileSizeKey, .isRegularFileKey]
        let root = URL(fileURLWithPath: folder)
        let backups = URL(fileURLWithPath: DataFolder.home(folder).backups.standardFolder).standardizedFileURL.path
        guard let files = FileManager.default.enumerator(at: root, includingPropertiesForKeys: keys) else { return 0 }
        var sum: Int64 = 0
        for case let file as URL in files {
            if file.standardizedFileURL.path == backups { files.skipDescendants() }
            let values = try? file.resourceValues(forKeys: Set(keys))
            if values?.isRegularFile == true { sum += Int64(values?.fileSize ?? 0) }
        }
        return sum
    }

    /// Returns the metrics of a relay; `nil` if it does not show them.
    ///
    /// - Throws: `ProbeFault.timedOut` if the whole answer is not here in time.
    private static func metrics(of address: String?, token: String?) async throws -> String? {
        guard let address, let relay = try? RelayAddress(address) else { return nil }
        let headers = token.map { [("Authorization", "Bearer \($0)")] } ?? []
        let request = RelayRequest(method: .get, path: "/metrics", headers: headers)
        let answer = try await Deadline.run(for: 5, orThrow: ProbeFault.timedOut("an answer to GET /metrics", 5)) {
            try? await relay.send(request, timeout: 5)
        }
        guard let answer, answer.status == 200 else { return nil }
        return String(decoding: answer.body, as: UTF8.self)
    }
}
