import Foundation
import TestSupport
import Testing

/// `zonecast share` against a running relay.
@Suite(.ownThread, .serialized) struct SharesCommandTests {
    private struct World {
        let folder = ScratchFolder()
        let relay: RelayProcess

        init() throws {
            relay = try RelayProcess(folder: folder.path)
            try post(
                "private/zones/modify",
                #"{"operations":[{"operationType":"create","zone":{"zoneName":"Notes"}}]}"#
            )
            try post(
                "private/records/modify",
                #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordName":"a","#
                    + #""recordType":"Note","fields":{"title":{"value":"Milk"}}}}]}"#
            )
        }

        func post(_ operation: String, _ body: String) throws {
            let path =
                "/database/1/iCloud.org.example.notes/development/\(operation)?ckWebAuthToken=dev-alice@example.org"
            #expect(try relay.connect().send("POST", path, body: body).status == 200)
        }

        func shares(_ arguments: String..., as user: String = "alice@example.org") throws -> Command {
            try Command.run(
                ["share"] + arguments
                    + [
                        "--url", "http://127.0.0.1:\(relay.port)", "--container", "iCloud.org.example.notes",
                        "--web-token", "dev-\(user)",
                    ]
            )
        }
    }

    @Test func aShareIsCreatedInvitedToChangedAndStopped() throws {
        let world = try World()
        #expect(try world.shares("list").output.hasPrefix("Nothing is shared."))
        let missing = try world.shares("show", "Notes")
        #expect(missing.status == 1 && missing.errors.contains("zonecast share create Notes"))
        let made = try world.shares("create", "Notes", "--title", "My \"notes\"")
        #expect(made.status == 0, "\(made.errors)")
        let link = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(link.contains("/share/iCloud.org.example.notes/development/"))
        let twice = try world.shares("create", "Notes")
        #expect(twice.status == 5 && twice.errors.contains("already shared"), "\(twice.errors)")
        let unnamed = try world.shares("invite", "Notes", "")
        #expect(unnamed.status == 2 && unnamed.errors.contains("A name is empty"), "\(unnamed.errors)")
        let invited = try world.shares("invite", "Notes", "bob@example.org", "carol@example.org")
        #expect(invited.output.contains("bob@example.org  http") && invited.output.contains("carol@example.org  http"))
        #expect(try world.shares("accept", link, as: "dave@example.org").status == 4)
        let joined = try world.shares("accept", link, as: "bob@example.org")
        #expect(joined.output == "accepted  Notes  (read-only)\n", "\(joined.errors)")
        let theirs = try world.shares("list", as: "bob@example.org").output
        #expect(theirs.contains("Notes") && theirs.contains("My \"notes\""))
        // Participants may list participants, and may leave.
        let seen = try world.shares("show", "Notes", as: "bob@example.org")
        #expect(seen.output.contains("OWNER") && seen.output.contains("bob@example.org"), "\(seen.errors)")
        let removal = try world.shares("permission", "Notes", "--remove", "carol@example.org", as: "bob@example.org")
        #expect(removal.status == 4 && removal.errors.contains("Only the owner"))
        #expect(try world.shares("stop", "Notes", as: "bob@example.org").output == "left  Notes\n")
        #expect(try world.shares("list", as: "bob@example.org").output.hasPrefix("Nothing is shared."))
        let again = try world.shares("invite", "Notes", "bob@example.org")
        #expect(again.status == 0, "\(again.errors)")
        #expect(try world.shares("accept", link, as: "bob@example.org").status == 0)
        let write = try world.shares("permission", "Notes", "--participant", "bob@example.org", "--may", "write")
        #expect(write.status == 0, "\(write.errors)")
        let list = try world.shares("show", "Notes").output
        #expect(list.contains("READ_WRITE") && list.contains("INVITED"))
        // Opening the link to everybody revokes carol's invitation, so the command asks for confirmation.
        let warned = try world.shares("permission", "Notes", "--may", "read")
        #expect(warned.status == 1 && warned.errors.contains("carol@example.org"))
        #expect(try world.shares("permission", "Notes", "--may", "read", "--yes").status == 0)
        #expect(try world.shares("accept", link, as: "dave@example.org").status == 0)
        #expect(try world.shares("permission", "Notes", "--may", "none", "--yes").status == 0)
        #expect(try world.shares("list", as: "bob@example.org").output.hasPrefix("Nothing is shared."))
        let stopped = try world.shares("stop", "Notes", "--return-to", "Home")
        #expect(stopped.output == "stopped  1 record is in Home\n", "\(stopped.errors)")
        #expect(try world.shares("accept", link, as: "bob@example.org").status == 1)
    }

    @Test func aRecordIsSharedWithItsDescendants() throws {
        let world = try World()
        let made = try world.shares("create", "Notes", "--root", "a", "--public", "write")
        #expect(made.status == 0, "\(made.errors)")
        let link = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
        #expect(try world.shares("accept", link, as: "bob").output == "accepted  Notes  (read and write)\n")
        let again = try world.shares("create", "Notes", "--root", "a")
        #expect(again.status == 5 && again.errors.contains("a share of its own already"))
        #expect(try world.shares("stop", "Notes", "--root", "a").status == 0)
        let gone = try world.shares("show", "Notes", "--root", "a")
        #expect(gone.status == 1 && gone.errors.contains("is not shared"))
    }

    @Test func the101stParticipantIsRefused() throws {
        let world = try World()
        #expect(try world.shares("create", "Notes").status == 0)
        let people = (1...99).map { "p\($0)@example.org" }
        let invited = try Command.run(
            ["share", "invite", "Notes"] + people
                + [
                    "--url", "http://127.0.0.1:\(world.relay.port)", "--container", "iCloud.org.example.notes",
                    "--web-token", "dev-alice@example.org",
                ]
        )
        #expect(invited.status == 0, "\(invited.errors)")
        let more = try world.shares("invite", "Notes", "late@example.org")
        #expect(more.status != 0 && more.errors.contains("at most 100 participants"), "\(more.errors)")
    }

    @Test func anUnreachableRelayIsReported() throws {
        let unreachable = try Command.run([
            "share", "list", "--url", "http://127.0.0.1:1", "--container", "iCloud.org.example.notes", "--web-token",
            "x",
        ])
        #expect(unreachable.status == 3)
        #expect(unreachable.errors.contains("cannot be reached: Connection refused"))
    }
}
