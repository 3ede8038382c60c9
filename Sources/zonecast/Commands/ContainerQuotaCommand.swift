import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// `zonecast container quota`: what one container may hold and send, where that is not what the configuration says.
struct ContainerQuotaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quota",
        abstract: "Show or set what a container may hold and send, other than the configuration's quota.…",
        discussion: """
            Each environment counts for itself. Without an option it shows. A running relay goes by a change within a second; \
            whoever has more already keeps it, and can store no more. Such a quota does not grow with the container's users.
            One user's: zonecast user quota.
            """
    )

    @Argument(help: ArgumentHelp("The container.", valueName: "id"))
    var container: ContainerID

    @Option(help: "development or production.")
    var environment: Records.Environment = .development

    @Option(
        name: .customLong("private"),
        help: ArgumentHelp(
            "Each user's private database: 500MB, 5GB; 0: any number; or 'configured'.",
            valueName: "size"
        )
    )
    var ofPrivate: String?

    @Option(help: ArgumentHelp("Records of the public database, likewise.", valueName: "size"))
    var publicRecords: String?

    @Option(help: ArgumentHelp("Assets of the public database, likewise.", valueName: "size"))
    var publicAssets: String?

    @Option(help: ArgumentHelp("What the public database sends in a month, likewise.", valueName: "size"))
    var publicTransfer: String?

    @Flag(help: "All as configured again.")
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
        if reset, asked.contains(where: { $0 != nil }) { throw ValidationError("Give sizes or --reset, not both.") }
        for text in asked.compactMap(\.self) where text != "configured" && ByteSize(text) == nil {
            throw ValidationError("'\(text)' is no size. Write it like 500MB, 5GB or 1000000, or 'configured'.")
        }
    }

    func run() throws {
        let home = ContainerEnvironment(container, environment)
        let old = try options.withDirectory { directory in
            guard try directory.hasContainer(container) else { throw DirectoryError.missing("container \(container)") }
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
            let words = bytes.map { $0 == .max ? "any number of bytes" : ByteText.of($0) } ?? "as configured"
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

    /// Any number is written as there being none.
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
