import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Devices that crash in the middle of their work and continue from their stored state.
@Suite(.timeLimit(.minutes(15))) struct CrashTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    @Test(arguments: [
        TestDevice.CrashPlace.sending("records/modify"), .answered("records/modify"), .answered("changes/zone"),
    ])
    func anEngineContinuesFromItsStoredState(_ place: TestDevice.CrashPlace) async throws {
        let laptop = Notebook(on: relay.device(of: "alice", named: "laptop"))
        let device = relay.device(of: "alice", named: "phone")
        var phone = Notebook(on: device)
        phone.write("a", "1")
        try await relay.settle()
        device.crash(at: place)
        phone.write("b", "2")
        laptop.write("c", "3")
        try await relay.settle()
        #expect(device.hasCrashed)
        let stored = phone.storedData
        phone = Notebook(on: try device.restarted(), with: stored)
        // A change that was pending but not in the stored state must be found in the program's own data.
        for name in stored.texts.keys.sorted() { phone.write(name, stored.texts[name] ?? "") }
        try await relay.settle()
        #expect(phone.texts == ["a": "1", "b": "2", "c": "3"])
        #expect(laptop.texts == phone.texts)
    }

    @Test(arguments: TestDevice.MirrorPlace.allCases)
    func aMirrorContinuesFromItsFile(_ place: TestDevice.MirrorPlace) async throws {
        let laptop = try await relay.device(of: "alice", named: "laptop").mirror(of: SettleTests.model)
        var device = relay.device(of: "alice", named: "phone")
        var phone = try await device.mirror(of: SettleTests.model)
        try insert("before", in: phone)
        try await relay.settle()
        device.crash(at: .mirror(place))
        try insert("here", in: phone)
        try insert("there", in: laptop)
        if place == .insideSweep || place == .insideDatabasePage { try relay.expireChangeTokens() }
        try await relay.settle()
        let hadCrashed = device.hasCrashed
        device = try device.restarted()
        phone = try await device.mirror(of: SettleTests.model)
        try await relay.settle()
        #expect(hadCrashed || place == .insideSweep || place == .insideDatabasePage)
        #expect(try titles(phone) == ["before", "here", "there"])
        #expect(try titles(laptop) == ["before", "here", "there"])
    }

    private func insert(_ title: String, in mirror: MirroredContainer) throws {
        let context = mirror.newBackgroundContext()
        try context.insert(SettleTests.Task(title: title))
        try context.save()
    }

    private func titles(_ mirror: MirroredContainer) throws -> [String] {
        try mirror.newBackgroundContext().fetch(SettleTests.Task.self).map(\.title).sorted()
    }

    /// A device that crashes does so on its own thread, which may still be moving files when it restarts.
    @Test func aRestartedDeviceHasAllFilesOfTheCrashedOne() throws {
        let device = relay.device(of: "alice", named: "phone")
        let folder = try device.folder()
        let names = (0..<500).map { "\($0)" }
        for name in names { try Data(name.utf8).write(to: folder.appendingPathComponent(name)) }
        Thread { device.crash() }.start()
        while !device.hasCrashed { sched_yield() }
        let again = try device.restarted().folder()
        #expect(try FileManager.default.contentsOfDirectory(atPath: again.path).sorted() == names.sorted())
    }

    @Test func aCrashedDeviceSendsNoMoreRequests() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let phone = Notebook(on: device)
        try await relay.settle()
        device.crash()
        device.network.forgetOperations()
        phone.write("a", "1")
        await relay.advance(by: .seconds(3600))
        #expect(device.network.operations.isEmpty)
        let again = try device.restarted()
        #expect(again.name == device.name)
        #expect(try await again.privateDatabase.allRecordZones().count == 2)
    }
}
