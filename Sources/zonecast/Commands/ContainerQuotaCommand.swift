import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// `zonecast container quota`: overrides the configured quotas for one container.
struct ContainerQuotaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quota",
        abstract: "Show or set a container's quotas, which override those of the configuration (quota.…).",
        discussion: """
            Each environment has its own quotas. Without options, shows them. A running relay applies a change within a second; \
            users above the new quota keep their data but cannot store more. These quotas do not grow with the number of users.
            For one user: zonecast user quota.
            """
    )

    @Argument(help: ArgumentHelp("The container.", valueName: "id"))
    var container: ContainerID

    @Option(help: "development or production.")
    var environment: Records.Environment = .development

    @Option(
        name: .customLong("private"),
        help: ArgumentHelp(
            "Each user's private database: 500MB, 5GB; 0: no limit; or 'configured'.",
            valueName: "size"
        )
    )
    var ofPrivate: String?

    @Option(help: ArgumentHelp("Records of the public database, in the same form.", valueName: "size"))
    var publicRecords: String?

    @Option(help: ArgumentHelp("Assets of the public database, in the same form.", valueName: "size"))
    var publicAssets: String?

    @Option(help: ArgumentHelp("Bytes sent by the public database per month, in the same form.", valueName: "size"))
    var publicTransfer: String?

    @Flag(help: "Reset all to the configured quotas.")
    var reset = false

    @OptionGroup var options: FolderOptions

    private struct Answer: Encodable {
        var container: String
        var environment: String
        var privateBytes: Int64?
        var publicRecords: Int64?
        var publicAssets: Int64?
        var publicTransfer: Int64?
    }

    private var asked: [String?] { [ofPrivate, publicRecords, publicAssets, publicTransfer] }

    func validate() throws {
        if reset, asked.contains(where: { $0 != nil }) { throw ValidationError("Use sizes or --reset, not both.") }
        for text in asked.compactMap(\.self) where text != "configured" && ByteSize(text) == nil {
            throw ValidationError("'\(text)' is not a size. Write it like 500MB, 5GB or 1000000, or 'configured'.")
        }
    }

    func run() throws {
        let home = ContainerEnvironment(container, environment)
        let old = try options.withDirectory { directory in
            try directory.requireContainer(container)
            return try directory.quota(of: home)
        }
        let new = reset ? ContainerQuota() : changed(old)
        if reset || asked.contains(where: { $0 != nil }) {
            try options.change("container.quota", container.name, in: home) { try $0.setQuota(new, of: home) }
        }
        if options.json { return try Terminal.say(json: answer(new)) }
        let rows: [(String, Int64?)] = [
            ("private", new.privateBytes), ("public records", new.publicRecords),
            ("public assets", new.publicAssets), ("public transfer", new.publicTransfer),
        ]
        for (name, bytes) in rows {
            let words = bytes.map { $0 == .max ? "no limit" : ByteText.of($0) } ?? "as configured"
            Terminal.say(name.filled(to: 17) + words)
        }
    }

    private func changed(_ old: ContainerQuota) -> ContainerQuota {
        func value(_ text: String?, _ old: Int64?) -> Int64? {
            guard let text else { return old }
            return ByteSize(text).map { $0.bytes == 0 ? .max : $0.bytes }
        }
        return ContainerQuota(
            privateBytes: value(ofPrivate, old.privateBytes),
            publicRecords: value(publicRecords, old.publicRecords),
            publicAssets: value(publicAssets, old.publicAssets),
            publicTransfer: value(publicTransfer, old.publicTransfer)
        )
    }

    /// No limit is written as 0.
    private func answer(_ quota: ContainerQuota) -> Answer {
        func shown(_ bytes: Int64?) -> Int64? { bytes == .max ? 0 : bytes }
        return Answer(
            container: container.name,
            environment: environment.rawValue,
            privateBytes: shown(quota.privateBytes),
            publicRecords: shown(quota.publicRecords),
            publicAssets: shown(quota.publicAssets),
            publicTransfer: shown(quota.publicTransfer)
        )
    }
}
