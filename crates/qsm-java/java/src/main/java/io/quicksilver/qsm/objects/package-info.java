/**
 * Typed messages: records with the number of their type in front, in the bytes that Rust and Python have.
 *
 * <p>Begin with {@link io.quicksilver.qsm.objects.TypedMessages}.
 */
package io.quicksilver.qsm.objects;
