/**
 * Quicksilver: reliable multicast to thousands of overlapping groups, without a broker.
 *
 * <p>Begin with {@link io.quicksilver.qsm.Node}.
 */
package io.quicksilver.qsm;
