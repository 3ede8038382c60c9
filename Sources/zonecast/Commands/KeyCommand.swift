import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore

/// `zonecast key`: server-to-server keys, whose holders sign their requests.
struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Add, list and revoke server-to-server keys.",
        subcommands: [Add.self, List.self, Revoke.self]
    )

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add the public half of a P-256 key.",
            discussion: """
                Make a pair with:
                  openssl ecparam -name prime256v1 -genkey -noout -out eckey.pem
                  openssl ec -in eckey.pem -pubout -out eckey.pub
                """,
            aliases: ["create"]
        )

        @OptionGroup var home: HomeOptions
        @OptionGroup var options: FolderOptions

        @Option(help: ArgumentHelp("The public key in PEM form; - reads standard input.", valueName: "file"))
        var publicKey: String

        @Option(help: "A name to tell it by.")
        var name = ""

        func run() throws {
            let pem = try readKey()
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

        private func readKey() throws -> String {
            let data =
                publicKey == "-"
                ? FileHandle.standardInput.readDataToEndOfFile() : FileManager.default.contents(atPath: publicKey)
            guard let data else {
                throw CommandFailure(.failed, "\(publicKey) cannot be read. Name the file with --public-key.")
            }
            return String(decoding: data, as: UTF8.self)
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
            if options.json {
                try Terminal.say(json: ["keys": rows])
            } else {
                Terminal.say(
                    table: rows.map {
                        [$0.keyID, $0.container, $0.environment, $0.name, $0.created, $0.revoked ?? "-"]
                    },
                    heading: ["KEY ID", "CONTAINER", "ENVIRONMENT", "NAME", "CREATED", "REVOKED"],
                    empty: "There are no keys. Add one with: zonecast key add --container ID --public-key FILE"
                )
            }
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
            if options.json { try Terminal.say(json: ["revoked": true]) } else { Terminal.say("revoked") }
        }
    }
}
