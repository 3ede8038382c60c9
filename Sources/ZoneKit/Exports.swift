// CloudKit brings Foundation with it, and on Apple's systems Foundation brings Observation: programs count on both.
@_exported public import Foundation
@_exported public import Observation
