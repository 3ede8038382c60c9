// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
// The part of SwiftUI that SyncedNotes and `@SyncedQuery` use, for type checks on Linux; see AppleTypeCheckTests.

import Foundation
@_exported public import UIKit

@MainActor @preconcurrency public protocol View {
    associatedtype Body: View
    @ViewBuilder var body: Body { get }
}

extension Never: View, Scene {
    public var body: Never { return fatalError() }
}

extension Optional: View where Wrapped: View {
    public var body: Never { return fatalError() }
}

public struct AnyStub: View, Scene {
    public var body: Never { return fatalError() }
}

@resultBuilder public struct ViewBuilder {
    @MainActor public static func buildBlock<each Content: View>(_ content: repeat each Content) -> AnyStub {
        AnyStub()
    }
    @MainActor public static func buildEither(first: some View) -> AnyStub { AnyStub() }
    @MainActor public static func buildEither(second: some View) -> AnyStub { AnyStub() }
    @MainActor public static func buildOptional(_ content: AnyStub?) -> AnyStub { AnyStub() }
}

@resultBuilder public struct SceneBuilder {
    @MainActor public static func buildBlock<Content: Scene>(_ content: Content) -> Content { content }
}

@MainActor @preconcurrency public protocol Scene {
    associatedtype Body: Scene
    @SceneBuilder var body: Body { get }
}

@MainActor @preconcurrency public protocol App {
    associatedtype Body: Scene
    @SceneBuilder var body: Body { get }
    init()
}

extension App {
    public static func main() {}
}

public protocol DynamicProperty {}

@propertyWrapper public struct State<Value>: DynamicProperty {
    public init(initialValue: Value) { wrappedValue = initialValue }
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
    public var wrappedValue: Value {
        get { fatalError() }
        nonmutating set {}
    }
    public var projectedValue: Binding<Value> { Binding() }
}

extension State where Value: ExpressibleByNilLiteral {
    public init() { self.init(wrappedValue: nil) }
}

public struct Binding<Value> {}

@propertyWrapper public struct Environment<Value>: DynamicProperty {
    public init(_ path: KeyPath<EnvironmentValues, Value>) {}
    public var wrappedValue: Value { fatalError() }
}

public struct EnvironmentValues {
    public var scenePhase: ScenePhase { .active }
}

public enum ScenePhase { case background, inactive, active }

public struct BackgroundTask<Request, Response>: Sendable {}

extension BackgroundTask where Request == Void, Response == Void {
    public static func appRefresh(_ identifier: String) -> BackgroundTask { BackgroundTask() }
}

extension Scene {
    public func backgroundTask<D, R>(_ task: BackgroundTask<D, R>, action: @escaping @Sendable (D) async -> R)
        -> some Scene
    {
        AnyStub()
    }
    public func onChange<V: Equatable>(of value: V, initial: Bool = false, _ action: @escaping () -> Void) -> some Scene
    {
        AnyStub()
    }
}

public struct WindowGroup: Scene {
    public init(@ViewBuilder content: () -> some View) {}
    public var body: Never { return fatalError() }
}

extension View {
    public func task(_ action: sending @escaping @isolated(any) () async -> Void) -> some View { AnyStub() }
    public func onSubmit(_ action: @escaping () -> Void) -> some View { AnyStub() }
}

public struct ProgressView: View {
    public init() {}
    public var body: Never { return fatalError() }
}

public struct Text: View {
    public init(_ text: some StringProtocol) {}
    public var body: Never { return fatalError() }
}

public struct Button: View {
    public init(_ title: some StringProtocol, action: @escaping @MainActor () -> Void) {}
    public var body: Never { return fatalError() }
}

public struct TextField: View {
    public init(_ title: some StringProtocol, text: Binding<String>) {}
    public var body: Never { return fatalError() }
}

public struct VStack: View {
    public init(@ViewBuilder content: () -> some View) {}
    public var body: Never { return fatalError() }
}

public struct List: View {
    public init(@ViewBuilder content: () -> some View) {}
    public var body: Never { return fatalError() }
}

public struct ForEach<Data: RandomAccessCollection>: View where Data.Element: Identifiable {
    public init(_ data: Data, @ViewBuilder content: @escaping (Data.Element) -> some View) {}
    public func onDelete(perform action: ((IndexSet) -> Void)?) -> some View { AnyStub() }
    public var body: Never { return fatalError() }
}

@MainActor @propertyWrapper public struct UIApplicationDelegateAdaptor<Delegate: UIApplicationDelegate>: DynamicProperty
{
    public init(_ type: Delegate.Type = Delegate.self) {}
    public var wrappedValue: Delegate { fatalError() }
}
