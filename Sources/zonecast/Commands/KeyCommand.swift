import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// `zonecast key`: manages server-to-server keys, with which servers sign their requests.
struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Create, list, rotate and revoke server-to-server keys.",
        subcommands: [Add.self, List.self, Rotate.self, Revoke.self]
    )

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a server key from the public key of a P-256 key pair.",
            discussion: """
                Create a key pair:
                  openssl ecparam -name prime256v1 -genkey -noout -out eckey.pem
                  openssl ec -in eckey.pem -pubout -out eckey.pub
                """,
            aliases: ["create"]
        )

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @OptionGroup var file: PublicKeyOption

        @Option(help: "A display name.")
        var name = ""

        func run() throws {
            let pem = try file.read()
            let key = try options.change("key.create", name, in: home.home) {
                try $0.addServerKey(in: home.home, name: name, publicKeyPEM: pem)
            }
            if options.json {
                try Terminal.say(json: ["keyID": key.id, "userRecordName": key.user.recordName])
            } else {
                Terminal.say(key.id, as: "key ID            ")
                Terminal.tell("user record name  \(key.user)")
            }
        }
    }

    /// The option that names the public key.
    struct PublicKeyOption: ParsableArguments {
        @Option(
            help: ArgumentHelp("The public key in PEM form; - reads standard input.", valueName: "file"),
            completion: .file()
        )
        var publicKey: String

        func read() throws -> String {
            guard let text = InputFile.text(publicKey) else {
                throw CommandFailure(.failed, "\(publicKey) cannot be read. Name the file with --public-key.")
            }
            return text
        }
    }

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace a key: the new key acts as the same user, so it owns the same records.",
            discussion:
                "The old key is revoked at once; with --keep, revoke it yourself once your server signs with the new one."
        )

        @Argument(help: "The old key's ID.")
        var keyID: String

        @OptionGroup var file: PublicKeyOption

        @Flag(help: "Keep the old key valid.")
        var keep = false

        @OptionGroup var options: FolderOptions

        func run() throws {
            let pem = try file.read()
            let key = try options.change("key.rotate", String(keyID.prefix(16))) { store in
                guard let old = try store.serverKey(keyID), old.revoked == nil else {
                    throw DirectoryError.missing("key \(keyID) that is not revoked")
                }
                let made = try store.addServerKey(in: old.home, name: old.name, publicKeyPEM: pem, user: old.user)
                if !keep { try store.revokeServerKey(keyID) }
                return made
            }
            if options.json {
                return try Terminal.say(json: ["keyID": key.id, "userRecordName": key.user.recordName])
            }
            Terminal.say(key.id, as: "key ID  ")
            Terminal.tell(
                keep ? "The old key stays valid until: zonecast key revoke \(keyID)" : "The old key is revoked."
            )
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the keys.")

        @OptionGroup var filter: HomeFilter
        @OptionGroup var options: FolderOptions

        private struct Row: Encodable {
            var keyID: String
            var container: String
            var environment: String
            var name: String
            var userRecordName: String
            var created: String
            var revoked: String?

            init(_ key: ServerKey) {
                keyID = key.id
                container = key.home.container.name
                environment = key.home.environment.rawValue
                name = key.name
                userRecordName = key.user.recordName
                created = key.created.iso8601
                revoked = key.revoked?.iso8601
            }
        }

        func run() throws {
            let rows = try options.withDirectory { try $0.serverKeys() }.filter { filter.admits($0.home) }.map(Row.init)
            try options.list(
                rows,
                as: "keys",
                heading: ["KEY ID", "CONTAINER", "ENVIRONMENT", "NAME", "CREATED", "REVOKED"],
                empty: "There are no keys. Create one: zonecast key add --container ID --public-key FILE"
            ) { [$0.keyID, $0.container, $0.environment, $0.name, $0.created, $0.revoked ?? "-"] }
        }
    }

    struct Revoke: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a key. A running relay refuses it within a second."
        )

        @Argument(help: "The key ID.")
        var keyID: String

        @OptionGroup var options: FolderOptions

        func run() throws {
            try options.change("key.revoke", String(keyID.prefix(16))) { try $0.revokeServerKey(keyID) }
            try options.confirm("revoked")
        }
    }
}
