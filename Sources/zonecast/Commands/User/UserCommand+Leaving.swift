import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore
import Wire

/// Export and deletion of a user's data, as data protection laws require.
extension UserCommand {
    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print all private and public records of a user, one line of JSON each.",
            discussion: """
                For users who request a copy of their data. Calls the running relay as that user; recorded in the audit log.
                Assets are named by their checksums; download each from its downloadURL within an hour.
                """
        )

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @OptionGroup var filter: HomeFilter
        @OptionGroup var options: FolderOptions

        func run() async throws {
            let count = try await options.holdingDirectory { store in
                let account = try UserCommand.account(email, in: store)
                let homes = try UserCommand.homes(of: account, filter, store)
                try store.note(AuditEntry(command: "user.export", email))
                return try await UserVisits.during(store) { visits in
                    var count = 0
                    for home in homes { count += try await export(account, in: home, visits) }
                    return count
                }
            }
            Terminal.complain("\(count) record\(count == 1 ? "" : "s") of \(email)")
        }

        /// Prints the user's records in one container; returns their number.
        private func export(_ account: Account, in home: ContainerEnvironment, _ visits: UserVisits) async throws -> Int
        {
            let visit = try await UserVisit(of: account, in: home, visits, folder: options.folder)
            defer { visit.end() }
            var count = 0
            try await UserCommand.asked {
                for zone in try await visit.zones(in: "private") {
                    guard let name = zone["zoneID"]?.text("zoneName") else { continue }
                    try await visit.records(of: name) { record in
                        count += 1
                        Terminal.say(Self.line(record, "private", name, home))
                    }
                }
                try await visit.publicRecords { record in
                    count += 1
                    Terminal.say(Self.line(record, "public", ZoneID.defaultName, home))
                }
            }
            return count
        }

        private static func line(_ record: JSONValue, _ database: String, _ zone: String, _ home: ContainerEnvironment)
            -> String
        {
            #"{"container":\#(quoted(home.container.name)),"environment":"\#(home.environment.rawValue)","#
                + #""database":"\#(database)","zone":\#(quoted(zone)),"record":\#(record.line)}"#
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete a user: their private databases, shares, sessions and account.",
            discussion: """
                Calls the running relay as that user, so that participants of their shares are notified. Records saved in public \
                databases and in other users' zones stay, under a user record name that no account uses any more and whose empty \
                record stays. The user is disabled first and stays disabled if something fails; then run the command again. Only a \
                backup can undo this.
                """
        )

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @Flag(help: "Do not ask for confirmation.")
        var yes = false

        @OptionGroup var options: FolderOptions

        func run() async throws {
            let zones = try await options.holdingDirectory { store in
                let account = try UserCommand.account(email, in: store)
                if !yes {
                    try Terminal.confirm("This deletes all data of \(email).", byTyping: email, called: "the address")
                }
                let homes = try UserCommand.homes(of: account, nil, store)
                // A signed-in user could write to zones that are already emptied.
                try store.setDisabled(true, of: account.id)
                return try await UserVisits.during(store) { visits in
                    var zones = 0
                    for home in homes {
                        let visit = try await UserVisit(of: account, in: home, visits, folder: options.folder)
                        defer { visit.end() }
                        try await UserCommand.asked {
                            zones += try await empty(visit)
                            try await visit.clearUserRecord()
                            // The default zone goes last: any request creates it again and counts it.
                            zones += try await deleteZones(visit)
                        }
                    }
                    return zones
                }
            }
            try options.change("user.delete", email) { try $0.removeAccount(try UserCommand.account(email, in: $0).id) }
            if options.json { return try Terminal.say(json: ["zones": zones]) }
            Terminal.tell("deleted  \(email)  \(zones.of("zone"))")
        }

        /// Leaves other users' shares and deletes every zone except the default one.
        private func empty(_ visit: UserVisit) async throws -> Int {
            var count = 0
            for zone in try await visit.zones(in: "shared") {
                guard let id = zone["zoneID"] else { continue }
                try await visit.leave(id)
                count += 1
            }
            return count + (try await deleteZones(visit) { $0 != ZoneID.defaultName })
        }

        /// Deletes the user's own zones that match; returns their number.
        private func deleteZones(_ visit: UserVisit, where isMeant: (String) -> Bool = { _ in true }) async throws
            -> Int
        {
            let zones = try await visit.zones(in: "private").compactMap { $0["zoneID"] }
                .filter { $0.text("zoneName").map(isMeant) ?? false }
            for zone in zones { try await visit.delete(zone) }
            return zones.count
        }
    }

    /// Returns the containers and environments that an account has used.
    ///
    /// - Throws: `DirectoryError` if the filter names a container that does not exist.
    static func homes(of account: Account, _ filter: HomeFilter?, _ store: AccountStore) throws
        -> [ContainerEnvironment]
    {
        if let container = filter?.container { try store.requireContainer(container) }
        return try store.profiles(of: account.id).map(\.home).filter { filter?.admits($0) ?? true }
    }

    /// Translates errors of the relay and of the connection to `CommandFailure`.
    static func asked<Value>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await body()
        } catch let refusal as WireConnection.Refusal {
            throw CommandFailure(.failed, "The relay refused: \(refusal.words)")
        } catch let fault as ProbeFault {
            throw CommandFailure(.unreachable, "The relay \(fault).")
        }
    }
}
