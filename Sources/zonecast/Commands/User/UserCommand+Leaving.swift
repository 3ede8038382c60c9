import ArgumentParser
import Foundation
import Records
import RelayCore
import RelayStore
import Wire

/// What a person may ask of whoever keeps their data: a copy, and the end of it.
extension UserCommand {
    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print all records of a user, private and public ones, one line of JSON each.",
            discussion: """
                For a person who asks for a copy of their data. Asks the running relay as that user, and is in the audit log.
                Assets are named by their checksums; fetch them with the downloadURL of each, good for an hour.
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

        /// Prints what they have in one container; gives the number of records.
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
            abstract: "Delete a user: their private databases, shares and sign-ins, and the account.",
            discussion: """
                Asks the running relay as that user, so that people they shared with are told. What they saved in public \
                databases and in other people's zones stays there, under a name that is nobody's any more, of which an empty \
                record stays. The user is disabled first, and stays so where something fails: run it again then. There is no way \
                back but a backup.
                """
        )

        @Argument(help: "The e-mail address, or dev-NAME.")
        var email: String

        @Flag(help: "Ask nothing.")
        var yes = false

        @OptionGroup var options: FolderOptions

        func run() async throws {
            let zones = try await options.holdingDirectory { store in
                let account = try UserCommand.account(email, in: store)
                if !yes {
                    try Terminal.confirm("This deletes all that \(email) has.", byTyping: email, called: "the address")
                }
                let homes = try UserCommand.homes(of: account, nil, store)
                // Whoever is signed in would write behind the back of what is emptied.
                try store.setDisabled(true, of: account.id)
                return try await UserVisits.during(store) { visits in
                    var zones = 0
                    for home in homes {
                        let visit = try await UserVisit(of: account, in: home, visits, folder: options.folder)
                        defer { visit.end() }
                        try await UserCommand.asked {
                            zones += try await empty(visit)
                            try await visit.clearUserRecord()
                            // The default zone is the last that goes: whoever comes gets one, and is counted by it.
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

        /// Leaves other people's shares and deletes every zone but the default one.
        private func empty(_ visit: UserVisit) async throws -> Int {
            var count = 0
            for zone in try await visit.zones(in: "shared") {
                guard let id = zone["zoneID"] else { continue }
                try await visit.leave(id)
                count += 1
            }
            return count + (try await deleteZones(visit) { $0 != ZoneID.defaultName })
        }

        /// Deletes their own zones of these names; gives the number.
        private func deleteZones(_ visit: UserVisit, where isMeant: (String) -> Bool = { _ in true }) async throws
            -> Int
        {
            let zones = try await visit.zones(in: "private").compactMap { $0["zoneID"] }
                .filter { $0.text("zoneName").map(isMeant) ?? false }
            for zone in zones { try await visit.delete(zone) }
            return zones.count
        }
    }

    /// Where an account has been.
    ///
    /// - Throws: `DirectoryError` where the filter names a container that is not there.
    static func homes(of account: Account, _ filter: HomeFilter?, _ store: AccountStore) throws
        -> [ContainerEnvironment]
    {
        if let container = filter?.container, try !store.hasContainer(container) {
            throw DirectoryError.missing("container \(container)")
        }
        return try store.profiles(of: account.id).map(\.home).filter { filter?.admits($0) ?? true }
    }

    /// Turns what a relay refuses, or a connection that ends, into words for a person.
    static func asked<Value>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await body()
        } catch let refusal as WireConnection.Refusal {
            throw CommandFailure(.failed, "The relay refuses: \(refusal.words)")
        } catch let fault as ProbeFault {
            throw CommandFailure(.unreachable, "The relay \(fault).")
        }
    }
}
