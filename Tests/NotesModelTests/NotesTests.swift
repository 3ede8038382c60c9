import NotesModel
import Testing
import ZoneTesting

@Suite struct NotesTests {
    @Test func aNoteWrittenOfflineReachesTheOtherDevice() async throws {
        let relay = try TestRelay()
        let phone = relay.device(of: "alice", named: "phone")
        let laptop = relay.device(of: "alice", named: "laptop")
        let onPhone = try await Notes(phone.container, folder: phone.folder())
        let onLaptop = try await Notes(laptop.container, folder: laptop.folder())

        phone.network.cut()
        try onPhone.add("Buy milk")
        try await relay.settle()
        #expect(try onLaptop.all().isEmpty)

        phone.network.heal()
        try await relay.settle()
        #expect(try onLaptop.all().map(\.title) == ["Buy milk"])

        for note in try onLaptop.all() { try onLaptop.toggle(note) }
        try await relay.settle()
        #expect(try onPhone.all().map(\.done) == [true])
    }
}
